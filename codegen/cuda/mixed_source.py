"""The CUDA source of what a call runs: of one plan, or of a plan for each direction."""

from __future__ import annotations

from dataclasses import dataclass

from ...cellspec.cell import CellSpec
from .mixed_plan import CallPlan, MixedPlan
from .source import CudaSource, cuda_source


@dataclass(frozen=True)
class MixedSource:
    """The text of a mixed plan's CUDA kernels: two translation units, each compiled by itself.

    Attributes:
        plan: of both.
        forward_unit: the source of the forward's plan, which has a backward too.
        backward_unit: the source of the backward's plan, which has a forward too.

    Example:
        >>> import rnnc
        >>> source = rnnc.cells.lstm.cuda(heads=12, head_dim=64)
        >>> {name: unit.plan.variant for name, unit in source.kernels.items()}
        {'rnnc_forward': 'block', 'rnnc_backward': 'cluster'}
        >>> source.code.splitlines()[0]
        '// Of a block plan, compiled by itself: rnnc_forward is what runs.'
    """

    plan: MixedPlan
    forward_unit: CudaSource
    backward_unit: CudaSource

    @property
    def name(self) -> str:
        """The cell's name."""
        return self.forward_unit.name

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Path and text of each header, by the path that both units include."""
        return self.forward_unit.headers

    @property
    def kernels(self) -> dict[str, CudaSource]:
        """Each kernel that runs, by name, with the translation unit that has it."""
        return {"rnnc_forward": self.forward_unit, "rnnc_backward": self.backward_unit}

    @property
    def code(self) -> str:
        """Both units, one after the other, each under a line that says what of it runs."""
        return "\n".join(
            f"// Of a {unit.plan.variant} plan, compiled by itself: {name} is what runs.\n{unit}"
            for name, unit in self.kernels.items()
        )

    @property
    def forward(self) -> str:
        """The forward alone, on one page, as `CudaSource.forward` has it."""
        return self.forward_unit.forward

    @property
    def backward(self) -> str:
        """The backward alone, on one page, as `CudaSource.backward` has it."""
        return self.backward_unit.backward

    def __str__(self) -> str:
        return self.code


def source_for(cell: CellSpec, plan: CallPlan) -> CudaSource | MixedSource:
    """The source of what a call of a plan runs.

    Args:
        cell: the cell.
        plan: what `plan_for` gave.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.cuda.mixed_source import source_for
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> from rnnc.codegen.shape import Shape
        >>> plan = plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> "rnnc_forward" in source_for(rnnc.cells.lstm, plan).forward
        True
    """
    if isinstance(plan, MixedPlan):
        return MixedSource(
            plan, cuda_source(cell, plan.forward_plan), cuda_source(cell, plan.backward_plan)
        )
    return cuda_source(cell, plan)
