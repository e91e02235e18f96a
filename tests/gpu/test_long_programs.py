"""Programs that call functions, in pieces: a GPU computes what the reference computes, by name."""

from __future__ import annotations

import re

import pytest
import rnnc
import torch
from rnnc import Gate, State, gate, sin, tanh
from rnnc.codegen import emit, emit_pieces
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.driver.device import device_limits

ROUNDS = 260  # each calls four functions and divides: more than emit.MOST_CALLS


def rounds_of(x: rnnc.Value) -> rnnc.Value:
    """Small steps, so that neither values nor gradients vanish over the rounds."""
    for _ in range(ROUNDS):
        x = x + 0.05 * tanh(sin(x) / (2 + x * x)) - 0.01 * rnnc.tan(0.1 * rnnc.sigmoid(x))
    return x


@rnnc.cell
def long_dense(g: Gate, h: State):
    return tanh(rounds_of(g + h))


@rnnc.cell
def long_diagonal(h: State, *, g: Gate = gate(recurrent="diagonal")):
    return tanh(rounds_of(g + h))


LONG = {"alternating": long_dense, "walk": long_diagonal}


def in_pieces(cell: rnnc.Cell, shape: tuple[int, int, int, int], dtype: str, variant: str) -> bool:
    """Is the backward of such a call a program in pieces?"""
    batch, _, heads, dim = shape
    limits = device_limits(torch.cuda.current_device())
    plan = plan_for(cell, Shape(heads, dim, batch, dtype=dtype), limits, variant).backward
    code = kernel_source(cell, plan).code
    return bool(re.search(r"__noinline__ void pointwise_backward_\d+\(real\* kept\)", code))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", LONG)
def test_long_programs(kind, dtype, draw, seeds_for, results, errors_are_small):
    cell, shape = LONG[kind], (5, 12, 2, 40)
    assert in_pieces(cell, shape, dtype, kind)
    torch.manual_seed(2)
    inputs = draw(cell, shape, getattr(torch, dtype))
    seeds = seeds_for(cell, inputs)
    own = results(cell, inputs, seeds, "reference")
    exact = inputs.map(lambda t: t.detach().double().requires_grad_())
    truth = results(cell, exact, {n: s.double() for n, s in seeds.items()}, "reference")
    errors_are_small(results(cell, inputs, seeds, variant=kind), own, truth)


@pytest.mark.parametrize("name", ["nested", "chained", "spiking"])
def test_every_plan_runs_pieces(
    name, variant, shape, draw, seeds_for, results, errors_are_small, loop_cells, monkeypatch
):
    """Pieces of a call each, also around loops, in float32: functions of two bytes are inline."""
    monkeypatch.setattr(emit, "MOST_COPIES", 0.5)
    monkeypatch.setattr(emit, "MOST_COPIES_OF_LOOPS", 0.5)
    monkeypatch.setattr(emit, "MOST_CALLS", 0)
    monkeypatch.setattr(emit, "FEWEST_CALLED", 1)
    monkeypatch.setattr(emit_pieces, "CALLS", 1)
    # Passes that no other test asks for: sources are remembered.
    loop = loop_cells.unrolled if name == "spiking" else rnnc.repeat
    cell = loop_cells.CELLS[name](loop, 5)
    assert in_pieces(cell, shape, "float32", variant)
    inputs = draw(cell, shape, torch.float32, variant)
    seeds = seeds_for(cell, inputs)
    own = results(cell, inputs, seeds, "reference")
    exact = inputs.map(lambda t: t.detach().double().requires_grad_())
    truth = results(cell, exact, {n: s.double() for n, s in seeds.items()}, "reference")
    for choice in ({"variant": variant}, {"variant": variant, "save": "states"}):
        errors_are_small(results(cell, inputs, seeds, **choice), own, truth)
