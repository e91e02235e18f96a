"""What `rnnc check` finds out about a cell: that its kernels are right, and where they overflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from ..cellspec.cell import CellSpec, Pair
from ..codegen.derive import Pointwise, derive
from .scan import Backend, scan

# Rounding in float64 over a few steps stays far below, a wrong formula far above.
TOLERANCE = 1e-9
# Where functions of the table saturate or overflow in float32: exp at 88.7, sigmoid's at -88.7.
EXTREMES = (0.0, 1.0, -1.0, 30.0, -30.0, 89.0, -89.0, 100.0, -100.0, 1e4, -1e4)
_MOST_POINTS = 4096
# Functions whose gradient is not their derivative, on purpose.
_CUT = ("stop_gradient", "clip_gradient")


@dataclass(frozen=True)
class Comparison:
    """An output or a gradient of the kernels against the reference's.

    Attributes:
        name: as in the cell's equations; `d_x_i` is the gradient of `x_i`.
        largest: the largest magnitude of the reference's values.
        error: the largest difference, as a share of the largest value; NaN where one is.
    """

    name: str
    largest: float
    error: float

    @property
    def ok(self) -> bool:
        """Whether the two agree."""
        return self.error <= TOLERANCE


@dataclass(frozen=True)
class Overflow:
    """A value that is finite in float64 and not in float32.

    Attributes:
        name: the output or gradient.
        found: what float32 gives.
        wanted: what float64 gives.
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


@dataclass(frozen=True)
class Inspection:
    """All that was found out about a cell.

    Attributes:
        pointwise: what was derived: operations, and what the backward reads.
        seed: the random inputs' seed.
        outputs: each state over time.
        gradients: each input's, weight's, param's and initial state's gradient.
        finite_differences: why the kernels' gradient is not that of finite differences, or empty.
        skipped: why finite differences were not taken, or empty.
        points: how many combinations of extreme pre-activations were tried.
        overflows: the mildest case of each value that only float32 cannot hold.
        undefined: values that are not finite in float64 either, at some of these points.
    """

    pointwise: Pointwise
    seed: int
    outputs: tuple[Comparison, ...]
    gradients: tuple[Comparison, ...]
    finite_differences: str
    skipped: str
    points: int
    overflows: tuple[Overflow, ...]
    undefined: tuple[str, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """A line for each thing that is wrong; none for a good cell."""
        lines = []
        for what, rows in (("output", self.outputs), ("gradient", self.gradients)):
            for row in rows:
                if math.isnan(row.error):
                    lines.append(f"the {what} {row.name} is not finite for ordinary inputs")
                elif not row.ok:
                    lines.append(f"the {what} {row.name} differs from autograd by {row.error:.1e}")
        if self.finite_differences:
            lines.append(f"finite differences disagree: {self.finite_differences}")
        return (*lines, *map(str, self.overflows))


def inspect(cell: CellSpec, seed: int) -> Inspection:
    """Check a cell's compiled kernels.

    Args:
        cell: the cell.
        seed: of the random inputs.

    Raises:
        CompileError: there is no compiler, or it refused the source.

    Example:
        >>> import rnnc
        >>> from rnnc.runtime.inspect import inspect
        >>> found = inspect(rnnc.cells.elman, seed=0)
        >>> [row.name for row in found.gradients], found.failures
        (['d_x_g', 'd_R_g', 'd_b_g', 'd_h'], ())
    """
    # The caller's own random numbers stay as they are.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        outputs, gradients = _compare(cell)
        skipped = next((f"{f} is meant to differ" for f in _CUT if _uses(cell, f)), "")
        finite_differences = "" if skipped else _finite_differences(cell)
        points, overflows, undefined = _extremes(cell)
    return Inspection(
        derive(cell),
        seed,
        outputs,
        gradients,
        finite_differences,
        skipped,
        points,
        overflows,
        undefined,
    )


def _uses(cell: CellSpec, function: str) -> bool:
    calls = {call.func.__name__ for u in cell.updates for call in u.atoms(sympy.Function)}
    return function in calls


@dataclass(frozen=True)
class _Inputs:
    """The tensors of one call of `scan`, as leaves."""

    wx: Tensor
    R: Tensor | None
    R_diag: Tensor | None
    b: Tensor | None
    params: tuple[Tensor, ...]
    initial: tuple[Tensor, ...]

    def tensors(self) -> list[Tensor]:
        some = [t for t in (self.wx, self.R, self.R_diag, self.b) if t is not None]
        return [*some, *self.params, *self.initial]

    def of(self, tensors: Sequence[Tensor]) -> _Inputs:
        """The same with other tensors, in the order of `tensors()`."""
        rest = list(tensors)
        single = [
            None if t is None else rest.pop(0) for t in (self.wx, self.R, self.R_diag, self.b)
        ]
        assert single[0] is not None
        count = len(self.params)
        return _Inputs(
            single[0], single[1], single[2], single[3], tuple(rest[:count]), tuple(rest[count:])
        )

    def run(
        self, cell: CellSpec, backend: Backend
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return scan(
            cell,
            self.wx,
            self.R,
            self.b,
            self.initial,
            R_diag=self.R_diag,
            params=dict(zip([p.name for p in cell.params], self.params, strict=True)),
            backend=backend,
        )

    def detached(self, dtype: torch.dtype) -> _Inputs:
        return self.of([t.detach().to(dtype).requires_grad_() for t in self.tensors()])


def _ordinary(cell: CellSpec, batch: int, steps: int, heads: int, dim: int) -> _Inputs:
    """Random inputs of an ordinary size; initial states are such as the cell itself comes to."""
    new = torch.empty(0, dtype=torch.float64).new_empty

    def normal(*shape: int) -> Tensor:
        return new(shape).normal_()

    dense, diagonal, biases = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)
    inputs = _Inputs(
        wx=normal(batch, steps, heads, dim, len(cell.input_gates)),
        R=normal(dense, heads, dim, dim) / math.sqrt(dim) if dense else None,
        R_diag=normal(diagonal, heads, dim) if diagonal else None,
        b=normal(biases, heads, dim) if biases else None,
        params=tuple(p.init + 0.5 * normal(heads, dim) for p in cell.params),
        initial=tuple(new(batch, heads, dim).fill_(s.init) for s in cell.states),
    )
    _, reached = inputs.run(cell, "reference")
    wx = normal(*inputs.wx.shape)
    return inputs.of([wx, *inputs.tensors()[1 : -len(cell.states)], *reached]).detached(wx.dtype)


def _compare(cell: CellSpec) -> tuple[tuple[Comparison, ...], tuple[Comparison, ...]]:
    """The kernels against autograd of the reference, in float64, by name."""
    inputs = _ordinary(cell, batch=3, steps=7, heads=2, dim=5)
    results, gradients = [], []
    weights: list[Tensor] = []
    backends: tuple[Backend, ...] = ("cpu", "reference")
    for backend in backends:
        leaves = inputs.detached(torch.float64)
        over_time, last = leaves.run(cell, backend)
        outputs = [*over_time, *last]
        weights = weights or [torch.randn_like(t) for t in outputs]
        loss = torch.stack([(w * t).sum() for w, t in zip(weights, outputs, strict=True)]).sum()
        given = torch.autograd.grad(loss, leaves.tensors(), materialize_grads=True)
        results.append({s.name: t.detach() for s, t in zip(cell.states, over_time, strict=True)})
        gradients.append(_by_name(cell, inputs.of(given)))
    return _comparisons(*results), _comparisons(*gradients)


def _comparisons(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> tuple[Comparison, ...]:
    largest = {name: _largest(t) for name, t in wanted.items()}
    # A value that is nearly zero is judged on the scale of its fellows.
    floor = 1e-6 * max((v for v in largest.values() if math.isfinite(v)), default=0.0)
    return tuple(
        Comparison(
            name,
            largest[name],
            _largest(found[name] - wanted[name]) / (max(largest[name], floor) or 1.0),
        )
        for name in wanted
    )


def _largest(tensor: Tensor) -> float:
    """The largest magnitude; NaN if any value is not finite."""
    if not tensor.numel():
        return 0.0
    return float(tensor.abs().max()) if bool(tensor.isfinite().all()) else math.nan


def _by_name(cell: CellSpec, gradients: _Inputs) -> dict[str, Tensor]:
    """Each gradient under the name that the cell's equations give its tensor."""
    named = {f"d_x_{g}": gradients.wx[..., i] for i, g in enumerate(cell.input_gates)}
    for letter, pairs, tensor in (
        ("R", cell.dense_pairs, gradients.R),
        ("u", cell.diagonal_pairs, gradients.R_diag),
    ):
        for i, pair in enumerate(pairs):
            assert tensor is not None
            named[f"d_{letter}_{_index(pair, pairs)}"] = tensor[i]
    for i, gate in enumerate(cell.bias_gates):
        assert gradients.b is not None
        named[f"d_b_{gate}"] = gradients.b[i]
    learned = [*cell.params, *cell.states]
    values = [*gradients.params, *gradients.initial]
    return named | {f"d_{d.name}": t for d, t in zip(learned, values, strict=True)}


def _index(pair: Pair, pairs: Sequence[Pair]) -> str:
    alone = sum(p.gate == pair.gate for p in pairs) == 1
    return pair.gate if alone else f"{pair.gate},{pair.source}"


def _finite_differences(cell: CellSpec) -> str:
    """What `torch.autograd.gradcheck` says of the kernels; empty if all is well."""
    inputs = _ordinary(cell, batch=2, steps=2, heads=1, dim=2)

    def outputs(*tensors: Tensor) -> tuple[Tensor, ...]:
        over_time, last = inputs.of(tensors).run(cell, "cpu")
        return (*over_time, *last)

    try:
        torch.autograd.gradcheck(outputs, inputs.tensors())
    except GradcheckError as error:
        return str(error).strip().splitlines()[0]
    return ""


def _extremes(cell: CellSpec) -> tuple[int, tuple[Overflow, ...], tuple[str, ...]]:
    """One step of the kernels in float32 and float64 from extreme pre-activations.

    Each head is one point: recurrent weights are zero, so that inputs and biases are the
    pre-activations, but where a gate has neither: there R makes it from its source.
    """
    values = _points(len(cell.gates))
    gates = {g.name: values[:, i] for i, g in enumerate(cell.gates)}
    overflows: dict[str, Overflow] = {}
    undefined: dict[str, None] = {}
    for initial in _starts(cell):
        inputs = _at(cell, len(values), gates, initial)
        found, wanted = (
            _one_step(cell, inputs.detached(d)) for d in (torch.float32, torch.float64)
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
    """Combinations of extreme values, the mildest first; a part of them where they are many."""
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
    """Previous states: those before the first step, and some that the cell comes to."""
    first = tuple(s.init for s in cell.states)
    reached = _ordinary(cell, batch=1, steps=9, heads=1, dim=1).initial
    # What float32 holds exactly is the same in float64.
    return first, tuple(float(t.detach().float()) for t in reached)


def _at(cell: CellSpec, heads: int, gates: dict[str, Tensor], initial: Sequence[float]) -> _Inputs:
    states = {s.name: v for s, v in zip(cell.states, initial, strict=True)}
    free = {g.name for g in cell.gates if not g.input and not g.bias}
    zero = torch.zeros(heads, dtype=torch.float64)

    def weights(pairs: Sequence[Pair]) -> Tensor | None:
        rows: list[Tensor] = []
        made: set[str] = set()
        for pair in pairs:
            makes = pair.gate in free - made and states[pair.source] != 0
            rows.append(gates[pair.gate] / states[pair.source] if makes else zero)
            made |= {pair.gate} if makes else set()
        return torch.stack(rows) if rows else None

    biases = [zero if g in cell.input_gates else gates[g] for g in cell.bias_gates]
    columns = [gates[g] for g in cell.input_gates]
    R, R_diag = weights(cell.dense_pairs), weights(cell.diagonal_pairs)
    return _Inputs(
        wx=torch.stack(columns, -1).view(1, 1, heads, 1, -1)
        if columns
        else zero.new_empty(1, 1, heads, 1, 0),
        R=None if R is None else R.view(-1, heads, 1, 1),
        R_diag=None if R_diag is None else R_diag.view(-1, heads, 1),
        b=torch.stack(biases).view(-1, heads, 1) if biases else None,
        params=tuple(zero.new_full((heads, 1), p.init) for p in cell.params),
        initial=tuple(zero.new_full((1, heads, 1), v) for v in initial),
    )


def _one_step(cell: CellSpec, inputs: _Inputs) -> dict[str, Tensor]:
    """Outputs and gradients at each point, by name."""
    _, last = inputs.run(cell, "cpu")
    # Not through a sum of all, which an Inf at one point would spoil for every other.
    gradients = torch.autograd.grad(
        last, inputs.tensors(), [torch.ones_like(t) for t in last], materialize_grads=True
    )
    named = _by_name(cell, inputs.of(gradients))
    learned = [f"d_{d.name}" for d in (*cell.params, *cell.states)]
    # A gate's input, weights and bias all get its gradient: the first speaks for it.
    gates = {f"d_{g.name}": _first_of(named, g.name) for g in cell.gates}
    outputs = {s.name: t.detach() for s, t in zip(cell.states, last, strict=True)}
    shown = outputs | gates | {name: named[name] for name in learned}
    return {name: t.reshape(-1) for name, t in shown.items()}


def _first_of(named: dict[str, Tensor], gate: str) -> Tensor:
    kinds = [f"d_{letter}_{gate}" for letter in "xbRu"]
    return next(t for name, t in named.items() if name.split(",")[0] in kinds)
