"""The CUDA source of a cell for a plan: one translation unit per direction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...cellspec.cell import CellSpec
from ..plan import Plan
from ..render import Source, derive_for, render
from .kernel_plan import KernelPlan
from .kinds import KINDS
from .unit_plan import UnitPlan


@dataclass(frozen=True)
class CudaSource:
    """The text of a cell's CUDA kernels, with the hand-written headers.

    Attributes:
        plan: of both directions: sizes, bytes, estimates, what binds.
        forward_unit: the translation unit of the forward.
        backward_unit: the translation unit of the backward.

    Example:
        >>> import rnnc
        >>> source = rnnc.cells.lstm.cuda(heads=12, head_dim=64)
        >>> {name: unit.plan.kind for name, unit in source.kernels.items()}
        {'rnnc_forward': 'block', 'rnnc_backward': 'cluster'}
        >>> source.plan.arch, "lib/mma/k_tile.cuh" in dict(source.headers)
        ('sm_90', True)
    """

    plan: Plan
    forward_unit: Source
    backward_unit: Source

    @property
    def name(self) -> str:
        """The cell's name."""
        return self.forward_unit.name

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Path and text of each header, by the path that both units include."""
        return self.forward_unit.headers

    @property
    def units(self) -> tuple[Source, Source]:
        """The translation units, forward and backward."""
        return self.forward_unit, self.backward_unit

    @property
    def kernels(self) -> dict[str, Source]:
        """Each kernel by name, with the translation unit that has it."""
        names = {unit.plan: unit for unit in self.units}
        return {name: names[plan] for name, plan in self.plan.kernels.items()}

    @property
    def forward(self) -> str:
        """The text of the forward's translation unit, which compiles with `headers`.

        Example:
            >>> import rnnc
            >>> text = rnnc.cells.elman.cuda(head_dim=16).forward
            >>> "h_next = tanh(g);" in text, "pointwise_backward" in text
            (True, False)
        """
        return self.forward_unit.code

    @property
    def backward(self) -> str:
        """The text of the backward's translation unit, as `forward` is for the forward.

        Example:
            >>> import rnnc
            >>> text = rnnc.cells.elman.cuda(head_dim=16).backward
            >>> "d_g = d_h_next*(real(1) - h_next*h_next);" in text
            True
        """
        return self.backward_unit.code

    @property
    def code(self) -> str:
        """Both translation units, one after the other; each is compiled by itself."""
        return f"{self.forward}\n{self.backward}"

    def __str__(self) -> str:
        return self.code


def cuda_source(cell: CellSpec, plan: Plan) -> CudaSource:
    """The source of a cell's kernels for a plan.

    Args:
        cell: the cell.
        plan: of both directions.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> from rnnc.codegen.cuda.source import cuda_source
        >>> from rnnc.codegen.shape import Shape
        >>> plan = plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> "rnnc_forward" in cuda_source(rnnc.cells.lstm, plan).forward
        True
    """
    return CudaSource(plan, kernel_source(cell, plan.forward), kernel_source(cell, plan.backward))


def kernel_source(cell: CellSpec, plan: KernelPlan) -> Source:
    """The translation unit of one direction.

    Args:
        cell: the cell.
        plan: of the direction.

    Raises:
        PlanError: kernels of the plan's kind do not run the cell.
    """
    KINDS[plan.kind].check(cell)
    pointwise = derive_for(cell, plan)
    if isinstance(plan, UnitPlan) and plan.direction == "forward" and plan.save == "states":
        pointwise = replace(pointwise, saved=())  # a backward reads the gates' inputs
    return render(pointwise, plan)
