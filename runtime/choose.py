"""Which plan a call runs: of the caller's variant, or what a trial or the model found fastest."""

from __future__ import annotations

import os
import warnings
from functools import lru_cache
from typing import NamedTuple

import torch

from ..cellspec.cell import CellSpec
from ..codegen.cluster_plan import ClusterPlan
from ..codegen.grid_plan import GridPlan
from ..codegen.mixed_plan import CallPlan
from ..codegen.plan import CudaPlan, Variant
from ..codegen.planner import plans_for
from ..codegen.shape import DIRECTIONS, Direction, Dtype, Save, Shape
from .device import device_limits, on_device
from .errors import ResidencyError
from .fused import batch_tiles
from .launch import load_kernel
from .planned import planned
from .tuned import Asked, recall

_DTYPES: dict[torch.dtype, Dtype] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}


class Choice(NamedTuple):
    """What a caller chose among the kernels of a GPU: as in `plan_for`."""

    variant: str = "auto"
    save: str = "gates"


@lru_cache(maxsize=2048)
def choose_plan(
    cell: CellSpec,
    heads: int,
    dim: int,
    batch: int,
    dtype: torch.dtype,
    device: int,
    choice: Choice,
    tf32: bool,
) -> CallPlan:
    """The plan of a call, whose `of` gives that of each direction.

    Args:
        cell: the cell.
        heads: of the call.
        dim: units of a head.
        batch: rows; none count as one.
        dtype: of the tensors.
        device: the device's number.
        choice: the caller's.
        tf32: whether torch lets float32 products round to tf32.

    Raises:
        PlanError: there is no plan of the variant.
    """
    shape = Shape(heads, dim, max(batch, 1), dtype=_DTYPES[dtype])
    limits = device_limits(device)
    variant: Variant = choice.variant  # type: ignore[assignment]
    save: Save = choice.save  # type: ignore[assignment]
    tf32 = tf32 and dtype == torch.float32
    asked = Asked(cell, shape, limits, save, tf32)
    if variant != "auto":
        return planned(asked, variant)
    found = recall(asked)
    if found is None and _tuning_wanted() and not torch.cuda.is_current_stream_capturing():
        from .tune import tune  # it runs kernels, which choose their plans here

        found = tune(asked, device).winner
    if found is None:
        found = planned(asked)
    return found if _has_room(cell, found, shape, device) else _next_best(asked, device)


def _tuning_wanted() -> bool:
    """Whether `RNNC_TUNE` asks for a trial of each size that comes up."""
    return os.environ.get("RNNC_TUNE", "") not in ("", "0")


def _has_room(cell: CellSpec, plan: CallPlan, shape: Shape, device: int) -> bool:
    """Whether blocks that wait for each other are on the chip together, in each direction.

    A plan counts multiprocessors; how many clusters fit depends on how those lie on this very chip.
    """
    return all(_fits(cell, plan.of(d), d, shape, device) for d in DIRECTIONS)


def _fits(cell: CellSpec, plan: CudaPlan, direction: Direction, shape: Shape, device: int) -> bool:
    """Whether the blocks of a plan's kernel of a direction are."""
    if not isinstance(plan, ClusterPlan | GridPlan):
        return True
    name = f"rnnc_{direction}"
    try:
        with on_device(torch.device("cuda", device)):
            kernel = load_kernel(cell, plan, name, device)
    except ResidencyError:
        return False
    if isinstance(plan, ClusterPlan):
        return True
    groups = min(plan.groups, batch_tiles(plan, shape.batch))
    return (kernel.resident or 0) >= plan.kernels[name].blocks * groups * shape.heads


def _next_best(asked: Asked, device: int) -> CudaPlan:
    """The cheapest plan that there is room for: the one place that steps down, and says so."""
    plans = plans_for(asked.cell, asked.shape, asked.limits, save=asked.save, tf32=asked.tf32)
    plan = next(p for p in plans if _has_room(asked.cell, p, asked.shape, device))
    warnings.warn(
        f"{asked.limits.name} has no room for the blocks of the cheapest plan of"
        f" {asked.cell.name}, {asked.shape}; rnnc takes the next:\n{plan}",
        RuntimeWarning,
        stacklevel=2,
    )
    return plan
