"""Finds where a cell overflows: one step from extreme pre-activations in float32 and float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..cellspec.pairs import Pair
from ..runtime.call.tensors import ScanInputs
from .inputs import by_name, leaves_of, ordinary, run, with_tensors

# Functions of the table saturate or overflow near these in float32: exp at 88.7, sigmoid at -88.7,
# exp2 at 128.
EXTREMES = (0.0, 1.0, -1.0, 30.0, -30.0, 89.0, -89.0, 130.0, -130.0, 1e4, -1e4)
_MOST_POINTS = 4096


@dataclass(frozen=True)
class Overflow:
    """A value that is finite in float64 and not in float32.

    Attributes:
        name: the output or gradient.
        found: the value in float32.
        wanted: the value in float64.
        gates: the pre-activations where it happens.
        states: the previous states there.
    """

    name: str
    found: float
    wanted: float
    gates: tuple[tuple[str, float], ...]
    states: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {value:g}" for name, value in (*self.gates, *self.states))
        return f"{self.name} is {self.found:g} in float32, {self.wanted:g} in float64, at {at}"


def extremes(cell: CellSpec) -> tuple[int, tuple[Overflow, ...], tuple[str, ...]]:
    """Run one step of the kernels in float32 and float64 from extreme pre-activations.

    Each head is one point. Recurrent weights are zero, so that inputs and biases are the
    pre-activations. A gate that has neither gets its value from its source through R. Inputs of the
    cell that no weight multiplies are 1.

    Returns:
        The number of points; the mildest case of each value that overflows in float32 alone; and
        the names of values that overflow in float64 too.
    """
    values = _points(len(cell.gates))
    gates = {g.name: values[:, i] for i, g in enumerate(cell.gates)}
    overflows: dict[str, Overflow] = {}
    undefined: dict[str, None] = {}
    for initial in _starts(cell):
        inputs = _at(cell, len(values), gates, initial)
        found, wanted = (
            _one_step(cell, leaves_of(inputs, d)) for d in (torch.float32, torch.float64)
        )
        for name in wanted:
            bad = wanted[name].isfinite() & ~found[name].isfinite()
            if bool((~wanted[name].isfinite()).any()):
                undefined[name] = None
            if bool(bad.any()) and name not in overflows:
                first = int(bad.nonzero()[0])
                overflows[name] = Overflow(
                    name,
                    float(found[name][first]),
                    float(wanted[name][first]),
                    tuple((g, float(v[first])) for g, v in gates.items()),
                    tuple((s.name, v) for s, v in zip(cell.states, initial, strict=True)),
                )
    return len(values) * 2, tuple(overflows.values()), tuple(undefined)


def _points(count: int) -> Tensor:
    """Combinations of extreme values, the mildest first; a random sample if there are many."""
    if not count:
        return torch.zeros(1, 0, dtype=torch.float64)
    if len(EXTREMES) ** count <= _MOST_POINTS:
        grid = torch.cartesian_prod(*[torch.tensor(EXTREMES, dtype=torch.float64)] * count)
        grid = grid.view(-1, count)
    else:
        picks = torch.randint(len(EXTREMES), (_MOST_POINTS, count))
        grid = torch.tensor(EXTREMES, dtype=torch.float64)[picks]
    return grid[grid.abs().sum(1).argsort(stable=True)]


def _starts(cell: CellSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Previous states: the initial ones, and ones that the cell reaches after some steps."""
    first = tuple(s.init for s in cell.states)
    reached = ordinary(cell, batch=1, steps=9, heads=1, dim=1).initial_states
    # A value that float32 holds exactly is the same in float64.
    return first, tuple(float(t.detach().float()) for t in reached)


def _at(
    cell: CellSpec, heads: int, gates: dict[str, Tensor], initial: Sequence[float]
) -> ScanInputs:
    states = {s.name: v for s, v in zip(cell.states, initial, strict=True)}
    free = {g.name for g in cell.gates if not g.input and not g.bias}
    zero = torch.zeros(heads, dtype=torch.float64)

    def weights(pairs: Sequence[Pair]) -> Tensor | None:
        rows: list[Tensor] = []
        made: set[str] = set()
        for pair in pairs:
            # A called gate, whose source is no state, keeps its weight of zero.
            makes = pair.gate in free - made and states.get(pair.source, 0) != 0
            rows.append(gates[pair.gate] / states[pair.source] if makes else zero)
            made |= {pair.gate} if makes else set()
        return torch.stack(rows) if rows else None

    biases = [zero if g in cell.input_gates else gates[g] for g in cell.bias_gates]
    columns = [gates[g] for g in cell.input_gates]
    R, R_diag = weights(cell.dense_pairs), weights(cell.diagonal_pairs)
    return ScanInputs(
        wx=torch.stack(columns, -1).view(1, 1, heads, 1, -1)
        if columns
        else zero.new_empty(1, 1, heads, 1, 0),
        R=None if R is None else R.view(-1, heads, 1, 1),
        R_diag=None if R_diag is None else R_diag.view(-1, heads, 1),
        b=torch.stack(biases).view(-1, heads, 1) if biases else None,
        params=tuple(zero.new_full((heads, 1), p.init) for p in cell.params),
        initial_states=tuple(zero.new_full((1, heads, 1), v) for v in initial),
        unweighted=tuple(zero.new_ones(1, 1, heads, 1) for _ in cell.inputs),
    )


def _one_step(cell: CellSpec, inputs: ScanInputs) -> dict[str, Tensor]:
    """Outputs and gradients at each point, by name."""
    _, last = run(cell, inputs, "cpu")
    # Gradients of a sum would be NaN at every point if one point has an Inf.
    gradients = torch.autograd.grad(
        last, inputs.present(), [torch.ones_like(t) for t in last], materialize_grads=True
    )
    named = by_name(cell, with_tensors(inputs, gradients))
    learned = [f"d_{d.name}" for d in (*cell.params, *cell.states, *cell.inputs)]
    # A gate's input, weights and bias all get its gradient: the first of them is shown.
    gates = {f"d_{g.name}": _first_of(named, g.name) for g in cell.gates}
    outputs = {s.name: t.detach() for s, t in zip(cell.states, last, strict=True)}
    shown = outputs | gates | {name: named[name] for name in learned}
    return {name: t.reshape(-1) for name, t in shown.items()}


def _first_of(named: dict[str, Tensor], gate: str) -> Tensor:
    kinds = [f"d_{letter}_{gate}" for letter in "xbRu"]
    return next(t for name, t in named.items() if name.split(",")[0] in kinds)
