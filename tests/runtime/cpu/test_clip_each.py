"""Each written `clip_gradient` clips its own gradient; a variable with one clips the sum."""

from __future__ import annotations

import pickle

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, clip_gradient, sigmoid, tanh
from rnnc.cellspec.expression.node import ordered
from rnnc.codegen.derive import derive

BOUND = 0.2
pytestmark = [
    pytest.mark.usefixtures("compiled"),
    pytest.mark.parametrize(
        "compiled", ["quick", pytest.param("shipped", marks=pytest.mark.slow)], indirect=True
    ),
]


@rnnc.cell
def each(g: Gate, h: State, c: State, w: Param):
    """Three equal applications, one of them the value of a state."""
    a = clip_gradient(w * tanh(g), BOUND)
    b = clip_gradient(w * tanh(g), BOUND)
    return sigmoid(a) * h - 2 * b, clip_gradient(w * tanh(g), BOUND)


@rnnc.cell
def together(g: Gate, h: State, c: State, w: Param):
    """One application, used three times."""
    a = clip_gradient(w * tanh(g), BOUND)
    return sigmoid(a) * h - 2 * a, a


@rnnc.cell
def inside(g: Gate, h: State, w: Param):
    """One application, used once by a value that is used twice."""
    a = tanh(clip_gradient(w * g, BOUND))
    return a + sigmoid(a) * h


@rnnc.cell
def inside_each(g: Gate, h: State, w: Param):
    """The same values with two applications."""
    a, b = tanh(clip_gradient(w * g, BOUND)), tanh(clip_gradient(w * g, BOUND))
    return a + sigmoid(b) * h


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, d):
        return d.clamp(-BOUND, BOUND)


clipped = Clipped.apply


def step_each(g, w, h, c):
    a, b = clipped(w * torch.tanh(g)), clipped(w * torch.tanh(g))
    return torch.sigmoid(a) * h - 2 * b, clipped(w * torch.tanh(g))


def step_together(g, w, h, c):
    a = clipped(w * torch.tanh(g))
    return torch.sigmoid(a) * h - 2 * a, a


def step_inside(g, w, h):
    a = torch.tanh(clipped(w * g))
    return (a + torch.sigmoid(a) * h,)


def step_inside_each(g, w, h):
    a, b = torch.tanh(clipped(w * g)), torch.tanh(clipped(w * g))
    return (a + torch.sigmoid(b) * h,)


STEPS = {
    each: step_each,
    together: step_together,
    inside: step_inside,
    inside_each: step_inside_each,
}
PAIRS = [(each, together), (inside_each, inside)]


def loop(cell, wx, R, b, w):
    """The cell over time, written by hand: its outputs over time."""
    states = [wx.new_zeros(wx.shape[0], *wx.shape[2:4]) for _ in cell.states]
    history = []
    for t in range(wx.shape[1]):
        g = wx[:, t, :, :, 0] + torch.einsum("noi,bni->bno", R[0], states[0]) + b[0]
        states = STEPS[cell](g, w.expand_as(g), *states)
        history.append(torch.stack(states))
    return list(torch.stack(history, 2))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("cell", STEPS, ids=lambda c: c.name)
def test_gradients_are_those_of_a_loop_that_clips_where_the_cell_does(cell, backend):
    batch, steps, heads, units = 3, 5, 2, 7
    inputs = {
        "wx": torch.randn(batch, steps, heads, units, 1, dtype=torch.float64),
        "R": torch.randn(1, heads, units, units, dtype=torch.float64) / units,
        "b": torch.randn(1, heads, units, dtype=torch.float64),
        "w": torch.randn(heads, units, dtype=torch.float64),
    }
    leaves = {name: value.requires_grad_() for name, value in inputs.items()}
    wx, R, b, w = leaves.values()
    wanted = loop(cell, wx, R, b, w)
    seeds = [torch.randn_like(y) for y in wanted]
    got, _ = rnnc.scan(cell, wx, R, b, params={"w": w}, backend=backend)
    (twin,) = (a if cell is b else b for a, b in PAIRS if cell in (a, b))
    gradients = [
        torch.autograd.grad(ys, list(leaves.values()), seeds)
        for ys in (wanted, list(got), loop(twin, wx, R, b, w))
    ]
    for y, w_y in zip(got, wanted, strict=True):
        torch.testing.assert_close(y, w_y, rtol=1e-12, atol=1e-12)
    for name, right, ours, other in zip(leaves, *gradients, strict=True):
        torch.testing.assert_close(
            ours, right, rtol=1e-10, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}"
        )
        # The two meanings differ here, or the comparison above would show nothing.
        assert (right - other).abs().max() > 1e-3, name


@pytest.mark.parametrize("cell", STEPS, ids=lambda c: c.name)
def test_json_pickle_and_copy_keep_how_often_it_is_applied(cell):
    count = {each: 3, together: 1, inside: 1, inside_each: 2}[cell]
    copied = cell.model_copy(update={"doc": cell.doc})
    for again in (rnnc.Cell.from_json(cell.to_json()), pickle.loads(pickle.dumps(cell)), copied):
        assert again == cell
        assert hash(again) == hash(cell)
        assert again.updates == cell.updates
        assert again.fingerprint == cell.fingerprint
        applications = [n for n in ordered(again.updates) if n.tag is not None]
        assert [n.tag for n in applications] == [*range(count)]
        assert {n.name for n in applications} == {"clip_gradient"}


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda c: c.name)
def test_the_two_meanings_are_two_cells(one, other):
    other = other.model_copy(update={"name": one.name, "doc": one.doc})
    assert one != other
    assert one.fingerprint != other.fingerprint
    assert derive(one).backward != derive(other).backward


def test_many_shared_applications_stay_as_they_are():
    """Where texts would grow without bound, and values that are used often have names anyway."""

    @rnnc.cell
    def deep(g: Gate, h: State):
        value = h
        for _ in range(60):
            a = clip_gradient(value, 0.1)
            value = tanh(a + clip_gradient(value, 0.1)) * a + g
        return value

    again = rnnc.Cell.from_json(deep.to_json())
    assert again == deep
    assert sum(n.tag is not None for n in ordered(again.updates)) == 120


def test_json_without_shared_values_still_loads():
    """Each application in the text is one of its own."""
    fields = together.model_dump(mode="json", exclude={"shared"})
    call = "clip_gradient(w*tanh(g), 0.2)"
    fields["updates"] = [f"sigmoid({call})*h - 2*{call}", call]
    fields.pop("shared")
    assert rnnc.Cell(**fields).updates == each.updates
