"""`rnnc check --device cuda`: compares the CUDA kernels of every plan that fits with a loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.cuda.kinds import kinds_for
from ..codegen.cuda.largest import largest_head_dims
from ..codegen.cuda.limits import Limits
from ..codegen.cuda.planner import plan_for
from ..codegen.shape import Dtype, PlanError, Shape
from ..runtime.call.tensors import ScanInputs
from .fuzz.judge import LOST, NEGLIGIBLE, allowed, largest
from .inputs import by_name, leaves_of, ordinary, run, with_tensors

_BATCH, _STEPS = 5, 7
# Walk and alternating plans have no largest head: one that no block can hold, and an odd one.
_ANY_HEAD = (160, 37)
_DRAWS = 3  # further draws of the loop's error, in case the first one was small by chance


@dataclass(frozen=True)
class PlanCheck:
    """The kernels of one plan against the loop.

    Attributes:
        variant: the kind of plan.
        dtype: the tensors' dtype.
        heads: N.
        dim: D.
        worst: the result that is nearest to its bound, or beyond it.
        error: its error, as a share of its largest value.
        bound: the error that it may have.
        failure: what is wrong; empty if nothing is.
    """

    variant: str
    dtype: str
    heads: int
    dim: int
    worst: str = ""
    error: float = 0.0
    bound: float = 0.0
    failure: str = ""


def check_gpu(cell: CellSpec, limits: Limits, seed: int) -> Iterator[PlanCheck]:
    """Run all plans of a cell, forward and backward: the largest head of each kind, and an odd one.

    Args:
        cell: the cell.
        limits: the GPU's limits.
        seed: the seed of the random inputs.
    """
    for variant, dtype, dim in plans_to_check(cell, limits):
        heads = 1 if variant == "grid" else 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                yield _check(cell, variant, dtype, heads, dim)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
                yield PlanCheck(variant, dtype, heads, dim, failure=failure)


def plans_to_check(cell: CellSpec, limits: Limits) -> list[tuple[str, Dtype, int]]:
    """The kind, dtype and head dim of each plan to check."""
    found: list[tuple[str, Dtype, int]] = []
    dtypes: tuple[Dtype, ...] = ("float32", "bfloat16")
    for dtype in dtypes:
        for variant, dim in largest_head_dims(cell, limits, dtype).dims.items():
            sizes = [dim, *_odd(cell, limits, variant, dtype, dim)] if dim else []
            found += [(variant, dtype, size) for size in sizes]
    every: tuple[Dtype, ...] = ("float32", "bfloat16", "float64")
    others = [name for name, kind in kinds_for().items() if kind.largest_head is None]
    for name, dtype, dim in product(others, every, _ANY_HEAD):
        if _has_plan(cell, limits, name, dtype, dim):
            found.append((name, dtype, dim))
    return found


def _has_plan(cell: CellSpec, limits: Limits, variant: str, dtype: Dtype, dim: int) -> bool:
    """Return True if a head dim has a plan of a kind; walks and scans take no matrices."""
    try:
        plan_for(cell, Shape(1, dim, _BATCH, dtype=dtype), limits, variant)
    except PlanError:
        return False
    return True


def _odd(cell: CellSpec, limits: Limits, variant: str, dtype: Dtype, largest: int) -> list[int]:
    """An odd head dim that has a plan, about half of the largest, in a list; or an empty list."""
    for dim in range(largest // 2 | 1, 0, -2):
        if _has_plan(cell, limits, variant, dtype, dim):
            return [dim]
    return []


def _check(cell: CellSpec, variant: str, dtype: Dtype, heads: int, dim: int) -> PlanCheck:
    computed: torch.dtype = getattr(torch, dtype)
    rough = torch.float32 if dtype == "float64" else computed
    inputs, weights = _inputs(cell, heads, dim, computed)
    found = _results(cell, inputs, weights, computed, "cuda", variant)
    truth = _results(cell, inputs, weights, torch.float64, "reference", "auto")
    loop = _results(cell, inputs, weights, rough, "reference", "auto")
    shares = _shares(truth, loop)
    rows = _rows(found, truth, shares, dtype)
    if any(not error <= bound for _, error, bound in rows) and dtype != "float64":
        for _ in range(_DRAWS):
            more, others = _inputs(cell, heads, dim, computed)
            exact = _results(cell, more, others, torch.float64, "reference", "auto")
            again = _results(cell, more, others, rough, "reference", "auto")
            for name, share in _shares(exact, again).items():
                shares[name] = max(shares[name], share)
        rows = _rows(found, truth, shares, dtype)
    wrong = [
        f"{name} is off by {error:.1e} of its largest value, allowed {bound:.1e}"
        for name, error, bound in rows
        if not error <= bound
    ]
    name, error, bound = max(rows, key=lambda row: _nearness(row[1], row[2]))
    return PlanCheck(variant, dtype, heads, dim, name, error, bound, "; ".join(wrong[:3]))


def _nearness(error: float, bound: float) -> float:
    return math.inf if math.isnan(error) else error / bound


def _inputs(
    cell: CellSpec, heads: int, dim: int, dtype: torch.dtype
) -> tuple[ScanInputs, list[Tensor]]:
    """Inputs and gradients of all outputs, with values that the dtype holds exactly."""
    drawn = ordinary(cell, _BATCH, _STEPS, heads, dim)
    rounded = drawn.map(lambda t: t.detach().to(dtype).double().cuda())
    shapes = [(_BATCH, _STEPS, heads, dim)] * len(cell.states)
    shapes += [(_BATCH, heads, dim)] * len(cell.states)  # type: ignore[list-item]
    return rounded, [torch.randn(s).to(dtype).double().cuda() for s in shapes]


def _results(
    cell: CellSpec,
    inputs: ScanInputs,
    weights: list[Tensor],
    dtype: torch.dtype,
    backend: str,
    variant: str,
) -> dict[str, Tensor]:
    """Outputs and gradients, by name."""
    leaves = leaves_of(inputs, dtype)
    over_time, last = run(cell, leaves, backend, variant)
    given = torch.autograd.grad(
        [*over_time, *last],
        leaves.present(),
        [w.to(dtype) for w in weights],
        materialize_grads=True,
    )
    states = [s.name for s in cell.states]
    outputs = {f"{n} over time": t.detach() for n, t in zip(states, over_time, strict=True)}
    outputs |= {f"{n} last": t.detach() for n, t in zip(states, last, strict=True)}
    return outputs | by_name(cell, with_tensors(inputs, given))


def _scales(truth: Mapping[str, Tensor]) -> dict[str, float]:
    sizes = {name: largest(t) for name, t in truth.items()}
    every = {d: max(v for n, v in sizes.items() if n.startswith("d_") == d) for d in (False, True)}
    return {n: max(v, NEGLIGIBLE * every[n.startswith("d_")]) or 1.0 for n, v in sizes.items()}


def _shares(truth: Mapping[str, Tensor], loop: Mapping[str, Tensor]) -> dict[str, float]:
    """The loop's errors as shares of the largest values; 0 where the loop lost its digits."""
    scales = _scales(truth)
    errors = {n: largest(loop[n].double() - t) / scales[n] for n, t in truth.items()}
    return {n: e if e <= LOST else 0.0 for n, e in errors.items()}


def _rows(
    found: Mapping[str, Tensor],
    truth: Mapping[str, Tensor],
    shares: Mapping[str, float],
    dtype: str,
) -> list[tuple[str, float, float]]:
    scales = _scales(truth)
    return [
        (n, largest(found[n].double() - t) / scales[n], allowed(dtype, 1.0, shares[n]))
        for n, t in truth.items()
    ]
