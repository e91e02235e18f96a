"""`rnnc check` on the CPU: whether a cell's kernels are right, and where they overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.derive import Pointwise, derive
from .differences import finite_differences
from .extremes import Overflow, extremes
from .inputs import by_name, leaves_of, ordinary, run, with_tensors
from .recurrence import wrong_parts

# Rounding in float64 over a few steps stays far below this; a wrong formula lies far above.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Comparison:
    """An output or a gradient of the kernels against the reference's.

    Attributes:
        name: its name in the cell's equations; `d_x_i` is the gradient of `x_i`.
        largest: the largest magnitude of the reference's values.
        error: the largest difference as a share of the largest value; NaN if a value is not finite.
    """

    name: str
    largest: float
    error: float

    @property
    def ok(self) -> bool:
        """True if the two agree."""
        return self.error <= TOLERANCE


@dataclass(frozen=True)
class Inspection:
    """The result of a check.

    Attributes:
        pointwise: the derived pointwise functions: operations, and what the backward reads.
        seed: the seed of the random inputs.
        outputs: each state over time.
        gradients: the gradient of each input, weight, param and initial state.
        finite_differences: how finite differences disagree with the gradient; empty if they agree.
        wrong_parts: the parts of the recurrence that random points contradict.
        points: the number of combinations of extreme pre-activations.
        overflows: the mildest case of each value that overflows in float32 alone.
        undefined: values that overflow in float64 too at some of these points.
    """

    pointwise: Pointwise
    seed: int
    outputs: tuple[Comparison, ...]
    gradients: tuple[Comparison, ...]
    finite_differences: str
    wrong_parts: tuple[str, ...]
    points: int
    overflows: tuple[Overflow, ...]
    undefined: tuple[str, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """One line per error; empty for a cell that passes."""
        lines = []
        for what, rows in (("output", self.outputs), ("gradient", self.gradients)):
            for row in rows:
                if math.isnan(row.error):
                    lines.append(f"the {what} {row.name} is not finite for ordinary inputs")
                elif not row.ok:
                    lines.append(f"the {what} {row.name} differs from autograd by {row.error:.1e}")
        if self.finite_differences:
            lines.append(f"finite differences disagree: {self.finite_differences}")
        lines += [f"the recurrence is not what it was taken for: {p}" for p in self.wrong_parts]
        return (*lines, *map(str, self.overflows))


def inspect(cell: CellSpec, seed: int) -> Inspection:
    """Check a cell's compiled kernels.

    Args:
        cell: the cell.
        seed: the seed of the random inputs.

    Raises:
        CompileError: there is no compiler, or it refused the source.

    Example:
        >>> import rnnc
        >>> from rnnc.verify.findings import inspect
        >>> found = inspect(rnnc.cells.elman, seed=0)
        >>> [row.name for row in found.gradients], found.failures
        (['d_x_g', 'd_R_g', 'd_b_g', 'd_h'], ())
    """
    # The state of the caller's random numbers does not change.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        outputs, gradients = _compare(cell)
        disagreement = finite_differences(cell)
        wrong = wrong_parts(cell)
        points, overflows, undefined = extremes(cell)
    return Inspection(
        derive(cell),
        seed,
        outputs,
        gradients,
        disagreement,
        wrong,
        points,
        overflows,
        undefined,
    )


def _compare(cell: CellSpec) -> tuple[tuple[Comparison, ...], tuple[Comparison, ...]]:
    """Compare the kernels with autograd of the reference in float64, by name."""
    inputs = ordinary(cell, batch=3, steps=7, heads=2, dim=5)
    results, gradients = [], []
    weights: list[Tensor] = []
    backends: tuple[str, ...] = ("cpu", "reference")
    for backend in backends:
        leaves = leaves_of(inputs, torch.float64)
        over_time, last = run(cell, leaves, backend)
        outputs = [*over_time, *last]
        weights = weights or [torch.randn_like(t) for t in outputs]
        loss = torch.stack([(w * t).sum() for w, t in zip(weights, outputs, strict=True)]).sum()
        given = torch.autograd.grad(loss, leaves.present(), materialize_grads=True)
        results.append({s.name: t.detach() for s, t in zip(cell.states, over_time, strict=True)})
        gradients.append(by_name(cell, with_tensors(inputs, given)))
    return _comparisons(*results), _comparisons(*gradients)


def _comparisons(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> tuple[Comparison, ...]:
    largest = {name: _largest(t) for name, t in wanted.items()}
    # A value near zero is judged on the scale of the others.
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
