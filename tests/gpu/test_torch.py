"""The operators and the module under torch: opcheck, autocast, compile, CPU against GPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.grad.operators.call import call_backward_op, call_op
from torch import nn

CELLS = ["lstm", "slstm", "fastgrnn"]


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("name", CELLS)
def test_opcheck_forward(name, variant, dim, save, draw, scan_call):
    cell, choice = rnnc.cells.get(name), {"variant": variant, "save": save}
    inputs = draw(cell, (3, 4, 2, dim), torch.float32, variant)
    torch.library.opcheck(call_op, scan_call(cell, inputs, **choice))
    inference = inputs.map(lambda t: t.detach())
    torch.library.opcheck(call_op, scan_call(cell, inference, keep=False, **choice))


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("name", CELLS)
def test_opcheck_backward(name, variant, dim, save, draw, scan_call):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, (3, 4, 2, dim), torch.float32, variant).map(lambda t: t.detach())
    tensors, text = scan_call(cell, inputs, variant=variant, save=save)
    count, out, needs = len(inputs.states), call_op(tensors, text), [True] * len(tensors)
    seeds, missing = [torch.randn_like(each) for each in out[: 2 * count]], [None] * count
    results, read = [*out[:count], *out[2 * count :]], tensors[save == "gates" :]
    for given in (seeds, [*seeds[:count], *missing], [*missing, *seeds[count:]]):
        torch.library.opcheck(call_backward_op, (given, read, results, needs, text))


class Model(nn.Module):
    """A model that holds an RNN."""

    def __init__(self, cell: rnnc.Cell, dim: int, **options) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 6)
        self.rnn = rnnc.RNN(cell, 6, 3 * dim, num_layers=2, heads=3, **options)

    def forward(self, x, states=None):
        y, last = self.rnn(self.inner(x), states)
        return y.float().square().mean() + sum(s.float().mean() for s in last)


def loss_and_gradients(model, run, x):
    model.zero_grad()
    loss = run(x)
    loss.backward()
    return {"loss": loss.detach()} | {k: p.grad.clone() for k, p in model.named_parameters()}


def test_compile_without_a_graph_break(variant, dim, needs_plan):
    needs_plan(rnnc.cells.slstm, 3, dim, 4, torch.float32, variant)
    torch._dynamo.reset()
    model = Model(rnnc.cells.slstm, dim, variant=variant).cuda()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for shape in ((5, 4, 3), (7, 2, 3)):
        x = torch.randn(shape, device="cuda")
        wanted, got = (loss_and_gradients(model, run, x) for run in (model, compiled))
        for key in wanted:
            torch.testing.assert_close(got[key], wanted[key], msg=key)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(variant, dim, dtype, needs_plan):
    needs_plan(rnnc.cells.lstm, 3, dim, 4, dtype, variant)
    model = Model(rnnc.cells.lstm, dim, variant=variant).cuda()
    x = torch.randn(5, 4, 3, device="cuda")

    def run(x):
        with torch.autocast("cuda", dtype):
            assert model.rnn(model.inner(x))[0].dtype == dtype
            return model(x)

    wanted, got = loss_and_gradients(model, model, x), loss_and_gradients(model, run, x)
    for key in wanted:
        assert got[key].dtype == torch.float32
        scale = wanted[key].abs().max().item()
        torch.testing.assert_close(got[key], wanted[key], rtol=0, atol=0.05 * scale, msg=key)


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("name", ["lstm", "gru", "slstm", "unicornn", "indrnn"])
def test_the_module_on_a_gpu_equals_that_on_the_cpu(name, variant, dim, save, needs_plan):
    cell = rnnc.cells.get(name)
    needs_plan(cell, 3, dim, 4, torch.float32, variant)
    here = rnnc.RNN(cell, 5, 3 * dim, heads=3, num_layers=2, variant=variant, save=save)
    x = torch.randn(37, 4, 5)
    seed = torch.randn(37, 4, 3 * dim)

    def run(module, device):
        module.zero_grad()
        given = x.to(device).detach().requires_grad_()
        y, last = module(given)
        (y * seed.to(device)).sum().add(sum(s.sum() for s in last)).backward()
        found = {"y": y, "gradient of x": given.grad}
        found |= {f"last {i}": s for i, s in enumerate(last)}
        found |= {f"gradient of {k}": p.grad for k, p in module.named_parameters()}
        return {key: value.detach().cpu() for key, value in found.items()}

    wanted = run(here, "cpu")
    got = run(here.to("cuda"), "cuda")
    for key in wanted:
        error = (got[key] - wanted[key]).norm() / wanted[key].norm().clamp(min=1e-30)
        assert error < 1e-5, (key, error.item())


def test_one_step_at_a_time_equals_the_sequence():
    rnn = rnnc.RNN(rnnc.cells.gru, 5, 48, heads=3).cuda()
    x = torch.randn(6, 4, 5, device="cuda")
    wanted, last = rnn(x)
    states = None
    for step in range(6):
        y, states = rnn.step(x[step], states)
        torch.testing.assert_close(y, wanted[step], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(states[0], last[0], rtol=1e-4, atol=1e-5)


def test_a_head_of_any_size_runs_and_a_plan_that_does_not_fit_is_refused():
    cell = rnnc.cells.lstm
    x = torch.randn(3, 2, 8, device="cuda", dtype=torch.bfloat16)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    # At 3072 units a grid streams a part of R, by name.
    for units, refused in ((1024, ["block"]), (3072, ["block", "cluster"]), (8192, ["grid"])):
        y, _ = rnnc.RNN(cell, 8, units, **options)(x)
        assert y.isfinite().all()
        for variant in refused:
            with pytest.raises(rnnc.RnncError, match=r"wanted: a head dim of at most \d+"):
                rnnc.RNN(cell, 8, units, variant=variant, **options)(x)
