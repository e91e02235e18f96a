"""Which plan a cell gets on a GPU: what is feasible, ranked by what it costs."""

from __future__ import annotations

from functools import lru_cache

from ..cellspec.cell import CellSpec
from .block import block_plan
from .cost import alternating_nanoseconds
from .derive import derive
from .limits import Limits
from .plan import VARIANTS, AlternatingPlan, CudaPlan, Variant
from .shape import SAVES, PlanError, Save, Shape


@lru_cache(maxsize=2048)
def plan_for(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    variant: Variant = "auto",
    *,
    save: Save = "gates",
    tf32: bool = False,
) -> CudaPlan:
    """The plan of a cell's kernels for a shape and a GPU.

    Args:
        cell: the cell.
        shape: sizes and dtype. What is compiled depends on head dim and dtype alone: batch, heads
            and steps are run-time values, and only help to choose among plans that all serve them.
        limits: the GPU.
        variant: `"block"`, `"alternating"`, or `"auto"` for the cheapest that is feasible.
        save: `"gates"`: the forward keeps what the backward needs of the gates; `"states"`: it
            keeps nothing but the states, and the backward computes the gates again.
        tf32: whether float32 products may round to tf32.

    Returns:
        A `BlockPlan` or an `AlternatingPlan`; printing it says why.

    Raises:
        PlanError: no plan of that variant exists; names what binds and the nearest size that fits.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.limits import limits_of
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.codegen.planner import plan_for
        >>> plan = plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> type(plan).__name__, plan.forward.matrix_registers
        ('BlockPlan', 64)
    """
    if variant not in VARIANTS:
        raise PlanError(
            f"plan\n  found:  variant={variant!r}\n  wanted: one of {', '.join(VARIANTS)}\n"
            '  write:  variant="auto"'
        )
    if save not in SAVES:
        raise PlanError(
            f"plan\n  found:  save={save!r}\n  wanted: one of {', '.join(SAVES)}\n"
            '  write:  save="gates"'
        )
    reason, block = "", None
    if variant != "alternating":
        try:
            block = block_plan(cell, shape, limits, save, tf32)
        except PlanError as error:
            if variant == "block":
                raise
            reason = _reason(error)
    alternating = AlternatingPlan(
        arch=limits.arch,
        dtype=shape.dtype,
        nanoseconds=alternating_nanoseconds(derive(cell), shape),
        binding=reason,
        tf32=tf32,
        save=save,
    )
    if block is None or (variant == "auto" and _cost(alternating) < _cost(block)):
        return alternating
    return block


def _cost(plan: CudaPlan) -> int:
    return sum(plan.nanoseconds)


def _reason(error: PlanError) -> str:
    """The message's wanted line: what would have fitted."""
    lines = str(error).splitlines()
    wanted = next(line for line in lines if line.startswith("  wanted: "))
    return f"a block wants {wanted.removeprefix('  wanted: ')}"
