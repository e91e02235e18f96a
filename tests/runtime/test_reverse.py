"""Reversed time: what `scan(reverse=True)` gives is the flipped result of flipped inputs."""

from __future__ import annotations

import pytest
import rnnc
import torch

# Dense, diagonal and param gradients; two states that R reads; states that are not read.
CELLS = ("lstm", "gru", "slstm", "unicornn", "fastgrnn")
BACKENDS = ("cpu", "reference")


def results(cell, inputs, seeds, backend, flipped=False, **options):
    """Outputs by name, and the gradient of each input; with `flipped`, by two flips of time."""
    over_time, last = rnnc.scan(
        cell,
        inputs.wx.flip(1) if flipped else inputs.wx,
        inputs.R,
        inputs.b,
        inputs.states,
        R_diag=inputs.R_diag,
        params=inputs.params,
        backend=backend,
        **({} if flipped else {"reverse": True}),
        **options,
    )
    if flipped:
        over_time = tuple(s.flip(1) for s in over_time)
    outputs = {f"{s.name} over time": v for s, v in zip(cell.states, over_time, strict=True)}
    outputs |= {f"{s.name} last": v for s, v in zip(cell.states, last, strict=True)}
    total = sum((outputs[name] * seed).sum() for name, seed in seeds.items())
    named = inputs.named()
    found = torch.autograd.grad(total, list(named.values()), materialize_grads=True)
    return outputs | {f"d_{n}": d for n, d in zip(named, found, strict=True)}


def seeds_of(cell, inputs, which=("over time", "last")):
    batch, steps, heads, dim, _ = inputs.wx.shape
    shapes = {"over time": (batch, steps, heads, dim), "last": (batch, heads, dim)}
    return {
        f"{s.name} {kind}": torch.randn(shapes[kind], dtype=inputs.wx.dtype)
        for s in cell.states
        for kind in which
    }


def check_same(got, wanted, exact_R):
    """The same bits; but products over time may add the steps of d_R in another order."""
    assert got.keys() == wanted.keys()
    for name in got:
        if name == "d_R" and not exact_R:
            torch.testing.assert_close(got[name], wanted[name])
        else:
            assert torch.equal(got[name], wanted[name]), name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 17])
@pytest.mark.parametrize("name", CELLS)
def test_it_is_the_flipped_result_of_flipped_inputs(name, steps, backend, inputs_for, poisoned):
    cell = rnnc.cells.get(name)
    for dtype in (torch.float32, torch.float64):
        inputs = inputs_for(cell, 3, steps, 2, 5, dtype)
        seeds = seeds_of(cell, inputs)
        both = (results(cell, inputs, seeds, backend, flipped) for flipped in (False, True))
        check_same(*both, exact_R=steps < 3 or backend == "reference")


@pytest.mark.parametrize("which", ["over time", "last"])
def test_gradients_of_some_results_alone(which, inputs_for):
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 2, 4, 2, 5)
    seeds = seeds_of(cell, inputs, (which,))
    check_same(*(results(cell, inputs, seeds, "cpu", f) for f in (False, True)), exact_R=False)


def test_inputs_of_any_strides(inputs_for):
    cell = rnnc.cells.gru
    inputs = inputs_for(cell, 2, 5, 2, 6)
    seeds = seeds_of(cell, inputs)
    wanted = results(cell, inputs, seeds, "cpu")
    for axes in ((1, 0, 2, 3, 4), (4, 1, 3, 2, 0), (2, 0, 1, 4, 3)):
        inverse = [axes.index(i) for i in range(5)]
        other = inputs.map(lambda tensor: tensor)
        other.wx = inputs.wx.detach().permute(axes).contiguous().permute(inverse).requires_grad_()
        for name, value in results(cell, other, seeds, "cpu").items():
            assert torch.equal(value, wanted[name]), name


def test_half_precision_on_the_cpu(inputs_for):
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 2, 3, 1, 4, torch.bfloat16)
    seeds = seeds_of(cell, inputs)
    got, wanted = (results(cell, inputs, seeds, "cpu", flipped) for flipped in (False, True))
    assert torch.equal(got["h over time"], wanted["h over time"])
    assert got["h over time"].dtype == torch.bfloat16


def test_only_the_order_of_steps_changes(inputs_for):
    """Against steps that are run one by one."""
    cell = rnnc.cells.gru
    inputs = inputs_for(cell, 2, 4, 2, 5, requires_grad=False)
    (h,), (last,) = rnnc.scan(
        cell, inputs.wx, inputs.R, inputs.b, inputs.states, backend="cpu", reverse=True
    )
    state = inputs.states
    for t in (3, 2, 1, 0):
        # The first of three equal steps: torch multiplies the single step of a sequence of one.
        (after,), _ = rnnc.scan(
            cell, inputs.wx[:, [t] * 3], inputs.R, inputs.b, state, backend="cpu"
        )
        state = [after[:, 0]]
        assert torch.equal(h[:, t], state[0])
    assert torch.equal(last, state[0])


def test_under_a_compiler(inputs_for):
    torch._dynamo.reset()
    cell = rnnc.cells.elman
    inputs = inputs_for(cell, 2, 3, 1, 4)

    def run(wx, R, b):
        return rnnc.scan(cell, wx, R, b, reverse=True)[0][0]

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    call = (inputs.wx, inputs.R, inputs.b)
    got, wanted = compiled(*call), run(*call)
    assert torch.equal(got, wanted)
    for ours, theirs in zip(
        torch.autograd.grad(got.sum(), call), torch.autograd.grad(wanted.sum(), call), strict=True
    ):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("reverse", [1, None, "yes", torch.tensor(True)])
def test_what_is_no_bool_is_refused(reverse, inputs_for):
    inputs = inputs_for(rnnc.cells.elman, 2, 3, 1, 4)
    with pytest.raises(rnnc.TensorError, match="True or False") as error:
        rnnc.scan(rnnc.cells.elman, inputs.wx, inputs.R, inputs.b, reverse=reverse)
    assert error.value.argument == "reverse"


@pytest.mark.parametrize("steps", [1, 2, 3, 17])
@pytest.mark.parametrize("name", CELLS)
def test_both_directions_in_one_call(name, steps, two_directions, poisoned):
    for dtype in (torch.float32, torch.float64):
        two_directions.check_both(name, (3, steps, 4, 5), dtype, "cpu")
