"""Forward mode of functions whose gradient is not the derivative of their value."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, clip_gradient, sin, tanh, with_gradient
from torch import func
from torch.autograd import forward_ad

BOUND = 0.01


@rnnc.cell
def plain(g: Gate, h: State, w: Param):
    v = rnnc.repeat(3, lambda v: v + 0.1 * tanh(w * v + g), 0.5 * h)
    return tanh(w * g) + v


@rnnc.cell
def clipped(g: Gate, h: State, w: Param):
    v = rnnc.repeat(3, lambda v: clip_gradient(v + 0.1 * tanh(w * v + g), BOUND), 0.5 * h)
    return clip_gradient(tanh(clip_gradient(w * g, BOUND)) + v, BOUND)


@rnnc.cell
def surrogate(g: Gate, h: State, w: Param):
    v = rnnc.repeat(3, lambda v: with_gradient(v + sin(v), of=v + 0.1 * tanh(w * v + g)), 0.5 * h)
    return with_gradient(sin(g), of=tanh(w * g)) + v


def inputs():
    """The input of a call, its matrix and its param."""
    shapes = (2, 4, 1, 3, 1), (1, 1, 3, 3), (1, 3)
    return tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)


def outputs_of(cell):
    """All outputs, as a function of the input, the matrix and the param."""

    def run(wx, R, w):
        return rnnc.scan(cell, wx, R, params={"w": w}, backend="reference")[0][0]

    return run


def dual(run, values, tangents):
    """The tangent by `torch.autograd.forward_ad`."""
    with forward_ad.dual_level():
        given = [forward_ad.make_dual(*pair) for pair in zip(values, tangents, strict=True)]
        return forward_ad.unpack_dual(run(*given)).tangent


MODES = {
    "func.jvp": lambda run, values, tangents: func.jvp(run, values, tangents)[1],
    "dual numbers": dual,
    "vmap": lambda run, values, tangents: func.vmap(
        lambda *one: func.jvp(run, tuple(values), one)[1]
    )(*[t[None] for t in tangents])[0],
}
modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


@modes
def test_tangents_pass_a_clipped_gradient_unchanged(mode):
    values, tangents = inputs(), inputs()
    found = mode(outputs_of(clipped), values, tangents)
    torch.testing.assert_close(found, mode(outputs_of(plain), values, tangents))
    # They are the derivative of the value, which the clipped gradient is not.
    step = 1e-5
    ends = [
        outputs_of(clipped)(*(v + sign * step * t for v, t in zip(values, tangents, strict=True)))
        for sign in (1, -1)
    ]
    torch.testing.assert_close(found, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-8)
    backward = [
        func.vjp(outputs_of(c), *values)[1](torch.ones_like(found))[0] for c in (clipped, plain)
    ]
    assert backward[0].abs().max() < 0.5 * backward[1].abs().max()


@modes
def test_tangents_of_a_value_are_those_of_what_gets_its_gradient(mode):
    values, tangents = inputs(), inputs()
    run = outputs_of(surrogate)
    found = mode(run, values, tangents)
    # The two modes agree: the product of a cotangent with the tangent, either way.
    cotangent = torch.randn_like(found)
    backward = func.vjp(run, *values)[1](cotangent)
    products = [(d * t).sum() for d, t in zip(backward, tangents, strict=True)]
    torch.testing.assert_close((cotangent * found).sum(), sum(products))


def test_a_value_alone_passes_no_tangent():
    @rnnc.cell
    def held(g: Gate, h: State, w: Param):
        return with_gradient(tanh(g), of=w) + 0 * h

    (wx, R, w), (d_wx, _, d_w) = inputs(), inputs()
    run = outputs_of(held)
    assert not func.jvp(lambda wx: run(wx, R, w), (wx,), (d_wx,))[1].any()
    found = func.jvp(lambda w: run(wx, R, w), (w,), (d_w,))[1]
    assert torch.equal(found, d_w[None, None].expand_as(found))


def test_forward_over_reverse_differentiates_the_clipped_gradient():
    values = inputs()

    def loss(wx):
        return outputs_of(clipped)(wx, *values[1:]).sin().sum()

    gradient, (tangent, *_), step = func.grad(loss), inputs(), 1e-5
    found = func.jvp(gradient, values[:1], (tangent,))[1]
    ends = [gradient(values[0] + sign * step * tangent) for sign in (1, -1)]
    torch.testing.assert_close(found, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-8)
