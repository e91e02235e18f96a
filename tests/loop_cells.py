"""Cells with loops, each made with `rnnc.repeat` or with a Python loop in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rnnc
from rnnc import (
    Constant,
    Gate,
    Input,
    Param,
    State,
    clip_gradient,
    constant,
    exp,
    sigmoid,
    stop_gradient,
    tanh,
    where,
    with_gradient,
)

Loop = Callable[..., Any]


def unrolled(n: int, step: Callable[..., Any], *values: Any) -> Any:
    """The meaning of `rnnc.repeat`."""
    for _ in range(n):
        found = step(*values)
        values = found if isinstance(found, tuple) else (found,)
    return values if len(values) > 1 else values[0]


def neuron(loop: Loop, n: int) -> rnnc.Cell:
    """Two carried states, and values that no pass changes: of a gate, a param and an input."""

    @rnnc.cell
    def neuron(
        i: Gate, v: State, m: State, w: Param, x: Input, dt: Constant = constant(0.4 / (n + 1))
    ):
        drive = sigmoid(i) * w + x

        def euler(v: Any, m: Any) -> Any:
            return v + dt * (tanh(i) - 2 * m**3 * (v - 0.5) + drive), m + dt * (
                exp(-v) * (1 - m) - m
            )

        return loop(n, euler, v, m)

    return neuron


def nested(loop: Loop, n: int, m: int = 3) -> rnnc.Cell:
    """A loop in a loop; carried values that change places; a clip that each pass has."""

    @rnnc.cell
    def nested(g: Gate, h: State, w: Param):
        def inner(a: Any, b: Any) -> Any:
            return b, tanh(a + w * g)

        def outer(a: Any) -> Any:
            x, y = loop(m, inner, a, clip_gradient(w, 0.1))
            return where(x > y, x, y) * sigmoid(g) + 0.1 * clip_gradient(x, 0.05)

        return tanh(loop(n, outer, h))

    return nested


def chained(loop: Loop, n: int) -> rnnc.Cell:
    """Two loops one after the other, of a state and of numbers; results that nothing reads."""

    @rnnc.cell
    def chained(g: Gate, f: Gate, h: State, c: State):
        def count(a: Any, b: Any, unused: Any) -> Any:
            return 0.5 * a + b * f, tanh(b * f + 0.1 * a), a + g

        a, b, _ = loop(n, count, 0, 1, h)
        kept = loop(n, lambda v: v + 0.2 * (tanh(a) - v) + 0.1 * stop_gradient(v), c)
        return tanh(b * g) + 0.3 * h, kept

    return chained


def decaying(loop: Loop, n: int) -> rnnc.Cell:
    """An output that the cell reads through R alone, so that it may be projected."""

    @rnnc.cell
    def decaying(f: Gate, z: Gate, o: Gate, h: State, c: State):
        c = loop(n, lambda c: sigmoid(f) * c + 0.3 * tanh(z), c)
        return sigmoid(o) * tanh(c), c

    return decaying


def spiking(loop: Loop, n: int) -> rnnc.Cell:
    """Sub-steps that spike: the value of a jump, with the gradient of a smooth step."""

    @rnnc.cell
    def spiking(i: Gate, s: State, v: State, slope: Param):
        def substep(s: Any, v: Any) -> Any:
            v = 0.9 * v * (1 - s) + 0.3 * i
            u = slope * (v - 0.2)
            return with_gradient(where(v > 0.2, 1, 0), of=sigmoid(clip_gradient(u, 0.5))), v

        return loop(n, substep, s, v)

    return spiking


def long(loop: Loop, n: int) -> rnnc.Cell:
    """A step of more than 1,000 operations, and as many after the loop."""

    @rnnc.cell
    def long(g: Gate, h: State, w: Param):
        def step(v: Any) -> Any:
            for _ in range(300):
                v = 0.9 * v + 0.1 * tanh(w * g - v)
            return v

        return step(clip_gradient(loop(n, step, h), 0.5) + g)

    return long


CELLS = {
    "long": long,
    "spiking": spiking,
    "neuron": neuron,
    "nested": nested,
    "chained": chained,
    "decaying": decaying,
}
