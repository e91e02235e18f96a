"""Where `clip_gradient` stands on the way of a cotangent through time, and where it does not."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import (
    Gate,
    State,
    clip_gradient,
    gate,
    heaviside,
    sigmoid,
    stop_gradient,
    tanh,
    with_gradient,
)


def cell_of(update):
    @rnnc.cell
    def drawn(h: State, c: State, *, a: Gate = gate(recurrent=False)):
        return update(h, c, a)

    return drawn


def inner(h, a):
    """A loop that clips what the states do not enter."""
    return rnnc.repeat(3, lambda v, w: (tanh(v + w), clip_gradient(a, 0.1)), h, a)[0]


@pytest.mark.parametrize(
    "update",
    [
        lambda h, c, a: (tanh(h), sigmoid(a) * tanh(c)),
        lambda h, c, a: (h * clip_gradient(a, 1), c + h),
        lambda h, c, a: (clip_gradient(sigmoid(a) * c, 1), tanh(c)),
        lambda h, c, a: (tanh(h), a * tanh(c + clip_gradient(h, 1))),
        lambda h, c, a: (tanh(h) * clip_gradient(stop_gradient(h), 1), a * c),
        lambda h, c, a: (tanh(h) + stop_gradient(clip_gradient(h, 1)), a * c),
        lambda h, c, a: (tanh(h) + heaviside(clip_gradient(h, 1)), a * c),
        lambda h, c, a: (with_gradient(clip_gradient(h, 1), of=tanh(h)), a * c),
        lambda h, c, a: (tanh(h) * clip_gradient(a, c), a * c),
        lambda h, c, a: (inner(h, a), a * c),
    ],
    ids=range(10),
)
def test_the_backward_is_linear_in_the_cotangents(update):
    recurrence = cell_of(update).recurrence
    assert (recurrence.adjoint, recurrence.adjoint_reason) == (
        "affine",
        "linear in the cotangents",
    )


@pytest.mark.parametrize(
    "update",
    [
        lambda h, c, a: (clip_gradient(h, 1) + a, c),
        lambda h, c, a: (tanh(clip_gradient(a * h, 1)), c),
        lambda h, c, a: (a + clip_gradient(c, 1), tanh(h)),
        lambda h, c, a: (with_gradient(a, of=clip_gradient(h, 1)), c),
        lambda h, c, a: (rnnc.repeat(2, lambda v: clip_gradient(v, 1) * a, h), c),
        lambda h, c, a: (
            rnnc.repeat(2, lambda v, w: (clip_gradient(w, 1) * a, v), h, a)[1],
            c,
        ),
        lambda h, c, a: (
            rnnc.repeat(2, lambda v: rnnc.repeat(3, lambda w: a * clip_gradient(w, 1), v), h),
            c,
        ),
    ],
    ids=range(7),
)
def test_a_clipped_cotangent_is_named(update):
    recurrence = cell_of(update).recurrence
    assert recurrence.adjoint == "diagonal"
    assert "clips a cotangent on its way through time" in recurrence.adjoint_reason
    assert "backward diagonal: `clip_gradient(" in str(recurrence)


def test_clips_of_a_weighted_gate_are_on_the_way():
    @rnnc.cell
    def weighted(h: State, *, g: Gate = gate(recurrent="diagonal")):
        return clip_gradient(g, 1)

    assert weighted.recurrence.kind == "affine"
    assert weighted.recurrence.adjoint == "diagonal"
