"""Gradients of inputs that nobody asks for: not derived, allocated or written."""

from __future__ import annotations

from functools import partial

import pytest
import rnnc
import torch
from rnnc import Constant, Gate, Input, State, bernoulli, constant, gate, normal, sigmoid, tanh
from rnnc.cli.program import Sizes, program_of
from rnnc.codegen.derive import derive
from rnnc.codegen.layout import layout_of
from rnnc.runtime.call.settings import Settings
from rnnc.runtime.cpu import compile as cpu_compile
from torch.profiler import ProfilerActivity, profile

T, B, N, D = 6, 4, 2, 5


@rnnc.cell
def mixed(
    g: Gate,
    h: State,
    dt: Input,
    *,
    keep: Input = bernoulli(0.3),
    xi: Input = normal(),
    n: Gate = gate(input=False),
    k: Gate = gate(recurrent="diagonal", bias=False),
    rate: Constant = constant(0.5),
):
    """Inputs of both kinds, beside gates of each kind."""
    new = tanh(g + rate * xi * n) * sigmoid(k * dt)
    return keep * h + (1 - keep) * new


@rnnc.cell
def looped(g: Gate, h: State, *, keep: Input = bernoulli(0.3), xi: Input = normal()):
    """The CPU computes it in blocks of units."""
    new = rnnc.repeat(3, lambda v: v + 0.1 * tanh(g + xi * v), h)
    return keep * h + (1 - keep) * new


def drawn_call(cell, sizes=(B, T, N, D), dtype=torch.float64):
    """Tensors of `rnnc.scan` by name."""
    batch, steps, heads, dim = sizes
    torch.manual_seed(0)
    new = partial(torch.randn, dtype=dtype)
    found = {
        "wx": new(batch, steps, heads, dim, len(cell.input_gates)),
        "R": new(len(cell.dense_pairs), heads, dim, dim) / dim**0.5,
        "b": new(len(cell.bias_gates), heads, dim),
    }
    if cell.diagonal_pairs:
        found["R_diag"] = new(len(cell.diagonal_pairs), heads, dim)
    inputs = {i.name: torch.rand(batch, steps, heads, dim, dtype=dtype) for i in cell.inputs}
    return found, inputs


def gradients(cell, asked, call, **options):
    """Results and gradients of weights and of those inputs that are asked, by name."""
    tensors, inputs = call
    leaves = {name: t.clone().requires_grad_() for name, t in tensors.items()}
    given = {n: t.clone().requires_grad_(n in asked) for n, t in inputs.items()}
    over_time, last = rnnc.scan(cell, **leaves, inputs=given, **options)
    results = {f"{i}": t for i, t in enumerate((*over_time, *last))}
    leaves |= {f"d {name}": given[name] for name in asked}
    loss = sum((i * t.square()).sum() for i, t in enumerate(results.values(), 1))
    found = torch.autograd.grad(loss, list(leaves.values()))
    return results | dict(zip(leaves, found, strict=True))


def assert_equal(found, wanted):
    assert found
    for name, value in found.items():
        assert torch.equal(value, wanted[name]), name


RESET = torch.rand(B, T, generator=torch.Generator().manual_seed(1)) < 0.3
LENGTHS = torch.tensor([T, 3, 0, 1])


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        (rnnc.zoneout("lstm", 0.3), {}),
        (rnnc.noisy("gru", 0.3), {"save": "states"}),
        (mixed, {"lengths": LENGTHS, "reset": RESET, "reverse": True}),
        (looped, {}),
    ],
)
def test_other_gradients_have_the_same_bits(cell, options, poisoned):
    call, names = drawn_call(cell), [i.name for i in cell.inputs]
    wanted = gradients(cell, names, call, **options)
    for asked in ([], names[-1:]):
        assert_equal(gradients(cell, asked, call, **options), wanted)


slow = pytest.mark.slow  # half a minute each, most of it in the C++ compiler


@pytest.mark.parametrize(
    ("kind", "dim"),
    [("block", 24), pytest.param("cluster", 72, marks=slow), pytest.param("grid", 72, marks=slow)],
)
def test_cuda_kernels_give_the_same_bits(kind, dim, emulated_blocks, poisoned):
    """As C++ on the CPU."""
    call = drawn_call(mixed, (B, 3, 1, dim), torch.float32)
    lengths = LENGTHS.clamp(max=3) if kind == "block" else None
    options = {"backend": "simulated", "variant": kind, "lengths": lengths}
    wanted = gradients(mixed, ["dt", "keep", "xi"], call, **options)
    for asked in ([], ["keep"]):
        assert_equal(gradients(mixed, asked, call, **options), wanted)


def test_nothing_of_them_is_derived():
    drawn = derive(rnnc.zoneout("gru", 0.1))
    assert [str(o) for o in drawn.backward.outputs if "zoneout" in str(o)] == []
    assert "h" not in drawn.reads or "h" in derive(rnnc.cells.gru).reads
    assert layout_of(mixed).gradients.names == ("g", "k", "n", "dt")
    assert layout_of(mixed).gates.names == ("g", "k", "n", "dt", "keep", "xi")
    text = program_of(rnnc.zoneout("gru", 0.1), Sizes(steps=8), "H200")
    assert "zoneout_h" in text
    assert "d_zoneout_h" not in text
    assert "d_dt" in program_of(mixed, Sizes(steps=8), "H200")


def settings(cell):
    return rnnc.RNN(cell, 3, N * D, heads=N)._settings(True, cell)


def test_a_call_whose_gradients_are_all_asked_has_the_cell_as_it_is():
    plain = mixed.model_copy(
        update={"inputs": tuple(i.model_copy(update={"draw": None}) for i in mixed.inputs)}
    )
    assert settings(plain).with_gradients([True] * 3).cell is plain
    assert settings(mixed).with_gradients([True, False, False]).cell is mixed
    assert settings(rnnc.cells.lstm).with_gradients([]).cell is rnnc.cells.lstm
    asked: Settings = settings(mixed).with_gradients([False, True, False])
    assert [i.gradient for i in asked.cell.inputs] == [False, True, None]
    assert rnnc.Cell.from_json(asked.cell.to_json()) == asked.cell
    assert asked.with_gradients([True, False, False]).cell == mixed
    assert asked.cell.equations() == mixed.equations()


def peak(run):
    """The bytes that a call needs at most."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    now = most = 0
    events = profiler.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes() if event.name() == "[memory]" else 0
        most = max(most, now)
    return most


@pytest.mark.parametrize("backend", ["cpu", "simulated"])
def test_they_take_no_memory(backend, request):
    if backend == "simulated":
        request.getfixturevalue("simulated_gpu")
    sizes, cell = (16, 64, 2, 64), rnnc.zoneout("lstm", 0.1)
    tensors, inputs = drawn_call(cell, sizes, torch.float32)
    one = inputs["zoneout_h"].nbytes

    def run(asked):
        leaves = {name: t.requires_grad_() for name, t in tensors.items()}
        given = {n: t.detach().requires_grad_(n in asked) for n, t in inputs.items()}
        results, _ = rnnc.scan(cell, **leaves, inputs=given, backend=backend)
        torch.autograd.grad(results[0], list(leaves.values()), torch.ones_like(results[0]))

    without, both = peak(lambda: run([])), peak(lambda: run(list(inputs)))
    assert both - without > 1.9 * one
    assert both - peak(lambda: run(["zoneout_c"])) > 0.9 * one


def module(**options):
    torch.manual_seed(0)
    return rnnc.RNN(mixed, 3, N * D, heads=N, dtype=torch.float64, **options)


def inputs_of(parts, requires=()):
    torch.manual_seed(2)
    shape = parts, T, B, N, D
    return {
        i.name: torch.rand(shape, dtype=torch.float64).requires_grad_(i.name in requires)
        for i in mixed.inputs
    }


def gradients_of(run, rnn, inputs):
    rnn.zero_grad()
    run(torch.ones(T, B, 3).double(), inputs=inputs)[0].square().sum().backward()
    found = {name: p.grad.clone() for name, p in rnn.named_parameters()}
    return found | {f"d {n}": t.grad for n, t in inputs.items() if t.requires_grad}


@pytest.mark.parametrize("both", [False, True])
def test_modules_also_where_calls_come_again_with_others(both):
    """A call that is known is not taken for one with other gradients."""
    rnn = module(num_layers=2, bidirectional=both)
    parts = 4 if both else 2
    wanted = gradients_of(rnn, rnn, inputs_of(parts, ["dt", "keep", "xi"]))
    for asked in ([], ["xi"], [], ["dt", "keep"], ["dt", "keep"], ["dt", "keep"], []):
        found = gradients_of(rnn, rnn, inputs_of(parts, asked))
        assert_equal(found, wanted)
        assert len(found) == len(wanted) - 3 + len(asked)


def test_compiled_calls():
    torch.compiler.reset()
    rnn = module(num_layers=2)
    wanted = gradients_of(rnn, rnn, inputs_of(2, ["dt", "keep", "xi"]))
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    for asked in ([], ["xi"]):
        found = gradients_of(compiled, rnn, inputs_of(2, asked))
        assert len(found) == len(wanted) - 3 + len(asked)
        for name, value in found.items():
            torch.testing.assert_close(value, wanted[name])


def test_an_exported_call_refuses_a_gradient_that_it_was_not_traced_with():
    rnn, x = module(), torch.ones(T, B, 3).double()
    graph = torch.export.export(rnn, (x,), {"inputs": inputs_of(1)}).module()
    passed = inputs_of(1, ["dt"])
    graph(x, inputs=passed)[0].sum().backward()
    torch.testing.assert_close(passed["dt"].grad, inputs_gradient(rnn, x))
    with pytest.raises(rnnc.BackwardError, match="a gradient of the input xi"):
        graph(x, inputs=inputs_of(1, ["xi"]))[0].sum().backward()
    graph = torch.export.export(rnn, (x,), {"inputs": inputs_of(1, ["xi"])}).module()
    graph(x, inputs=inputs_of(1, ["xi"]))[0].sum().backward()


def inputs_gradient(rnn, x):
    inputs = inputs_of(1, ["dt"])
    return torch.autograd.grad(rnn(x, inputs=inputs)[0].sum(), inputs["dt"])[0]


def test_transforms_of_torch_func():
    rnn, inputs = module(num_layers=2), inputs_of(2)
    weights = dict(rnn.named_parameters())

    def loss(weights, x, inputs):
        return torch.func.functional_call(rnn, weights, (x,), {"inputs": inputs})[0].sum()

    x = torch.randn(3, T, B, 3, dtype=torch.float64)
    both = torch.func.grad(loss, argnums=(0, 2))
    found = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, None))(weights, x, inputs)
    wanted = [both(weights, own, inputs) for own in x]
    for name, value in found.items():
        torch.testing.assert_close(value, torch.stack([own[name] for own, _ in wanted]))
    _, of_inputs = torch.vmap(both, in_dims=(None, 0, None))(weights, x, inputs)
    for name, value in of_inputs.items():
        torch.testing.assert_close(value, torch.stack([own[name] for _, own in wanted]))


def test_a_warmed_up_model_compiles_nothing_more(tmp_path, monkeypatch, compiler):
    """In a cache of its own."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = rnnc.RNN(mixed, 3, N * D, heads=N)
            self.rate = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.rnn(x, inputs={"dt": self.rate.expand(x.shape[:2])})[0]

    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    cpu_compile.cpu_library.cache_clear()
    model, x = Model(), torch.randn(T, B, 3)
    drawn = rnnc.RNN(rnnc.zoneout("elman", 0.1), 3, N * D)
    for own in (model, drawn):
        rnnc.warmup(own, (T, B, 3))
    files = sorted(tmp_path.glob("*.so"))
    assert len(files) == 2
    model(x).sum().backward()
    drawn(x)[0].sum().backward()
    assert model.rate.grad is not None
    assert sorted(tmp_path.glob("*.so")) == files
    cpu_compile.cpu_library.cache_clear()
