"""Times and errors of a plan's kernels on this machine's GPU."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import torch

from ..cellspec.cell import CellSpec
from ..codegen.plan import Plan
from ..codegen.shape import Shape
from ..runtime.cuda.driver.device import device_limits
from ..runtime.cuda.tune import measure_plans
from ..runtime.store.tuned import Asked
from .figures.accuracy import errors_of
from .figures.plot import Curve


@dataclass(frozen=True)
class Measured:
    """Measured times.

    Attributes:
        nanoseconds: per step, forward and backward; None if the plan could not be timed.
        failure: why not.
        errors: of the kernels' dtype, over time.
        where: the GPU and the date.
    """

    nanoseconds: tuple[float, float] | None
    failure: str
    errors: tuple[Curve, ...]
    where: str


def measured_on_gpu(cell: CellSpec, shape: Shape, plan: Plan) -> Measured:
    """Time a plan, and find its errors, on torch's current CUDA device.

    Args:
        cell: the cell.
        shape: sizes and dtype.
        plan: to be timed.
    """
    device = torch.cuda.current_device()
    asked = Asked(cell, shape, device_limits(device), plan.save, plan.tf32)
    (took,) = measure_plans(asked, [plan], device)
    where = f"{torch.cuda.get_device_name(device)}, {date.today().isoformat()}"
    if isinstance(took, Exception):
        return Measured(None, " ".join(str(took).split()), (), where)
    forward, backward = (1000 * microseconds for microseconds in took)
    curves = () if shape.dtype == "float64" else errors_of(cell, shape, (shape.dtype,), "cuda")
    return Measured((forward, backward), "", tuple(curves), where)
