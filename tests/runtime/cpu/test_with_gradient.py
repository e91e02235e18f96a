"""`with_gradient`: values are exact, and gradients are those of a loop of torch that detaches."""

from __future__ import annotations

from itertools import permutations

import pytest
import rnnc
import torch
from rnnc import (
    Gate,
    Param,
    State,
    clip_gradient,
    replace_gradient,
    sigmoid,
    sin,
    stop_gradient,
    tanh,
    where,
    with_gradient,
)
from torch import func

BOUND = 0.2
pytestmark = [
    pytest.mark.usefixtures("compiled"),
    pytest.mark.parametrize(
        "compiled", ["quick", pytest.param("shipped", marks=pytest.mark.slow)], indirect=True
    ),
]
backends = pytest.mark.parametrize("backend", ["cpu", "reference"])


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, d):
        return d.clamp(-BOUND, BOUND)


def detached(value, of):
    """`with_gradient` as it is written in torch; exact where `of` is finite."""
    return value.detach() + (of - of.detach())


# What may wrap a value x, in the language and in torch; u is another value of the step.
WRAPS = {
    "stop": (lambda x, u: stop_gradient(x), lambda x, u: x.detach()),
    "clip": (lambda x, u: clip_gradient(3 * x, BOUND), lambda x, u: Clipped.apply(3 * x)),
    "value": (lambda x, u: with_gradient(x, of=sin(u) * x), lambda x, u: detached(x, u.sin() * x)),
    "of": (
        lambda x, u: with_gradient(where(u > 0, 1, x), of=tanh(x)),
        lambda x, u: detached(torch.where(u > 0, 1.0, x), x.tanh()),
    ),
}
ORDERS = [order for n in (2, 3, 4) for order in permutations(WRAPS, n)]


def new_states(g, u, w, states, language):
    """The new values: a state for each order in which the functions may be nested."""
    found = []
    for state, order in zip(states, ORDERS, strict=True):
        x = w * g
        for word in order:
            x = WRAPS[word][language](x, u)
        found.append(0.4 * state + x)
    return tuple(found)


def all_orders() -> rnnc.Cell:
    """A cell with a state for each order, whose function is written as a text."""
    names = ["s_" + "_".join(order) for order in ORDERS]
    signature = "g: Gate, u: Gate, w: Param, " + ", ".join(f"{name}: State" for name in names)
    text = f"def nested({signature}):\n    return new_states(g, u, w, [{', '.join(names)}], 0)"
    scope = {"Gate": Gate, "Param": Param, "State": State, "new_states": new_states}
    exec(text, scope)
    return rnnc.cell(scope["nested"])


def loop(wx, R, w, lengths, reset):
    """All states over time, written by hand."""
    states = [wx.new_zeros(wx.shape[0], *wx.shape[2:4]) for _ in ORDERS]
    history = []
    for t in range(wx.shape[1]):
        runs = (t < lengths)[:, None, None]
        cut = reset[:, t, None, None] & runs
        states = [torch.where(cut, 0.0, s) for s in states]
        g, u = (wx[:, t, :, :, i] + torch.einsum("noi,bni->bno", R[i], states[0]) for i in range(2))
        new = new_states(g, u, w.expand_as(g), states, 1)
        history.append([torch.where(runs, n, 0.0) for n in new])
        states = [torch.where(runs, n, s) for n, s in zip(new, states, strict=True)]
    return [torch.stack(values, 1) for values in zip(*history, strict=True)], states


@backends
@pytest.mark.parametrize("ragged", [False, True])
def test_nested_in_all_orders_it_is_what_torch_computes(backend, ragged):
    batch, steps, heads, units = 3, 6, 2, 5
    wx = torch.randn(batch, steps, heads, units, 2, dtype=torch.float64).requires_grad_()
    R = (torch.randn(2, heads, units, units, dtype=torch.float64) / units).requires_grad_()
    w = torch.randn(heads, units, dtype=torch.float64).requires_grad_()
    lengths, reset = torch.full((batch,), steps), torch.zeros(batch, steps, dtype=torch.bool)
    options = {}
    if ragged:
        lengths, reset = torch.tensor([6, 0, 4]), torch.rand(batch, steps) < 0.3
        options = {"lengths": lengths, "reset": reset}
    got = rnnc.scan(all_orders(), wx, R, params={"w": w}, backend=backend, **options)
    wanted = loop(wx, R, w, lengths, reset)
    # A state of what is stopped last depends on no leaf.
    depends = [y.requires_grad for part in wanted for y in part]
    seeds = [torch.randn_like(y) for part in wanted for y in part if y.requires_grad]
    found = []
    for over_time, last in (got, wanted):
        outputs = [*over_time, *last]
        ends = [y for y, has in zip(outputs, depends, strict=True) if has]
        found.append([*outputs, *torch.autograd.grad(ends, (wx, R, w), seeds)])
    for ours, right in zip(*found, strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-10, atol=1e-10)


@rnnc.cell
def spiking(g: Gate, s: State, v: State, beta: Param):
    """A spike is 0 or 1, also where what its gradient goes to is infinite."""
    v = beta * v * (1 - s) + g
    return with_gradient(where(v > 1, 1, 0), of=sigmoid(4 * v) * (g * 1e30) * (g * 1e30)), v


@backends
def test_values_are_exact_whatever_the_gradient_goes_to(backend):
    wx = 20 * torch.randn(4, 30, 1, 7, 1)
    R, params = torch.zeros(1, 1, 7, 7), {"beta": torch.rand(1, 7)}
    (s, _), _ = rnnc.scan(spiking, wx, R, params=params, backend=backend)
    assert set(s.unique().tolist()) == {0.0, 1.0}


@rnnc.cell
def replaced(g: Gate, s: State):
    near = sigmoid(4 * g)
    return replace_gradient(where(g > 0, 1, 0), g, slope=4 * near * (1 - near))


@rnnc.cell
def surrogate(g: Gate, s: State):
    return with_gradient(where(g > 0, 1, 0), sigmoid(4 * g))


@backends
def test_replace_gradient_takes_the_slope_and_passes_nothing_to_it(backend):
    wx = torch.randn(3, 5, 1, 4, 1, dtype=torch.float64).requires_grad_()
    R = torch.randn(1, 1, 4, 4, dtype=torch.float64).requires_grad_()
    found = []
    for cell in (replaced, surrogate):
        (s,), _ = rnnc.scan(cell, wx, R, backend=backend)
        found.append((s, *torch.autograd.grad(s.sum(), (wx, R))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert found[0][1].abs().max() > 0.1


def smooth_loss(wx, R, backend="auto"):
    (s,), _ = rnnc.scan(surrogate, wx, R, backend=backend)
    return (s * s + s).sum()


def loss_by_hand(wx, R):
    s, total = wx.new_zeros(wx.shape[0], 1, 4), 0.0
    for t in range(wx.shape[1]):
        g = wx[:, t, :, :, 0] + torch.einsum("noi,bni->bno", R[0], s)
        s = detached(torch.where(g > 0, 1.0, 0.0), torch.sigmoid(4 * g))
        total = total + (s * s + s).sum()
    return total


@pytest.mark.filterwarnings("ignore:rnnc has no kernels")
@pytest.mark.parametrize(
    "transformed",
    [
        func.grad,
        lambda loss: func.vmap(func.grad(loss), (0, None)),
        lambda loss: func.grad(lambda wx, R: func.grad(loss)(wx, R).square().sum()),
        lambda loss: lambda wx, R: func.jvp(lambda wx: loss(wx, R), (wx,), (wx,))[1],
        func.hessian,
    ],
    ids=["grad", "vmap of grad", "grad of grad", "jvp", "hessian"],
)
def test_transforms_follow_it(transformed):
    wx = torch.randn(2, 3, 4, 1, 4, 1, dtype=torch.float64)
    R = torch.randn(1, 1, 4, 4, dtype=torch.float64)
    wx = wx if "vmap" in transformed.__code__.co_names else wx[0]
    found = transformed(smooth_loss)(wx, R)
    torch.testing.assert_close(found, transformed(loss_by_hand)(wx, R), rtol=1e-10, atol=1e-10)


def test_second_derivatives_by_the_reference():
    wx = torch.randn(3, 4, 1, 4, 1, dtype=torch.float64).requires_grad_()
    R = torch.randn(1, 1, 4, 4, dtype=torch.float64).requires_grad_()
    found = []
    for loss in (lambda wx, R: smooth_loss(wx, R, "reference"), loss_by_hand):
        (d,) = torch.autograd.grad(loss(wx, R), wx, create_graph=True)
        found.append(torch.autograd.grad(d.square().sum(), (wx, R)))
    for ours, right in zip(*found, strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-10, atol=1e-10)
