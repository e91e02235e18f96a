"""Long bodies, as of an unrolled loop: the time to derive them grows with their length."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest
import rnnc
import torch
from rnnc import (
    Constant,
    Gate,
    Param,
    State,
    clip_gradient,
    constant,
    exp,
    maximum,
    sigmoid,
    tanh,
    where,
    with_gradient,
)
from rnnc.codegen import reverse_mode
from rnnc.codegen.derive import derive, derived

from .test_derive import check_against_autograd

# What a step of a loop makes of two values, and how many operations that is.
STEPS: dict[str, tuple[int, Callable]] = {
    "tanh": (1, lambda h, k, g, w, dt: (tanh(h), k)),
    "product": (2, lambda h, k, g, w, dt: (h * w * g, k)),
    "sum": (2, lambda h, k, g, w, dt: (h + w - g, k)),
    "two values": (5, lambda h, k, g, w, dt: (tanh(h + 0.1 * k), k - dt * h + g)),
    "sum of all": (2, lambda h, k, g, w, dt: (tanh(h), k + h)),
    "quotient": (2, lambda h, k, g, w, dt: (g / (2 + h), k)),
    "choice": (4, lambda h, k, g, w, dt: (where(h > 0, maximum(0.5 * h, g), h * w), k)),
    "spike": (
        6,
        lambda h, k, g, w, dt: (
            clip_gradient(0.9 * h, 0.5) + g,
            k + with_gradient(where(h > 1, 1, 0), of=sigmoid(4 * h)),
        ),
    ),
    "Hodgkin and Huxley": (
        26,
        lambda v, m, i, w, dt: (
            v + dt * (i - 1.2 * m**3 * (v - 1.15) - w * (v - 0.1)),
            m + dt * ((2.5 - v) / (exp(2.5 - v) + 1) * (1 - m) - exp(-v / 18) * m),
        ),
    ),
}


def unrolled(kind: str, operations: int) -> rnnc.Cell:
    """A loop in Python of about as many operations."""
    count, step = STEPS[kind]

    @rnnc.cell
    def body(g: Gate, h: State, k: State, w: Param, u: Param, dt: Constant = constant(0.01)):
        for _ in range(operations // count):
            h, k = step(h, k, g, w, dt)
        return h + dt * w * g, u * k

    return body


def calls(work: Callable[[], object]) -> int:
    """How many functions are called."""
    found = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


SOME = ("two values", "Hodgkin and Huxley")


@pytest.mark.parametrize(
    "kind", [k if k in SOME else pytest.param(k, marks=pytest.mark.slow) for k in STEPS]
)
def test_twice_as_many_operations_take_twice_as_many_calls(kind, monkeypatch):
    # As of a cell that is long, so that fewer operations show it.
    monkeypatch.setattr(reverse_mode, "_LONGEST_SEARCHED", 0)

    def whole(operations):
        cell = unrolled(kind, operations)
        return lambda: (
            derived.__wrapped__(cell, True, False),
            cell.equations(),
            cell.latex(),
            cell.to_json(),
        )

    whole(400)()  # what is imported and cached once
    assert calls(whole(800)) < 2.2 * calls(whole(400))


@pytest.mark.slow
@pytest.mark.parametrize("kind", STEPS)
def test_ten_thousand_operations_are_derived_within_ten_seconds(kind):
    cell = unrolled(kind, 10_000)
    assert derive(cell).forward.operations >= 9_000
    begin = time.process_time()
    derived.__wrapped__(cell, True, False)
    assert time.process_time() - begin < 10


@pytest.mark.parametrize("operations", [300, 1300])
@pytest.mark.parametrize("kind", STEPS)
def test_gradients_are_those_of_autograd(kind, operations):
    """Below the length from which nodes are pulled back one by one, and above."""
    values = {n: 0.5 * torch.randn(20, dtype=torch.float64) for n in "ghkwu"}
    check_against_autograd(derive(unrolled(kind, operations)), values)


@pytest.mark.parametrize("kind", STEPS)
def test_statements_of_a_long_body_say_where_they_come_from(kind):
    backward = derive(unrolled(kind, 1300)).backward
    without = [s for s in backward.statements if not s.terms]
    assert len(without) <= 1 + 0.05 * len(backward.statements)
