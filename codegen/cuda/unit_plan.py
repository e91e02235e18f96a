"""Parts that plans of cells without dense matrices have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ..derive import derive
from ..layout import layout_of
from ..request import PlanRequest
from ..shape import Direction
from .kernel_plan import KernelPlan
from .limits import Limits


def values_kept(request: PlanRequest, direction: Direction) -> int:
    """Return the values per unit and step that a forward saves, or a backward reads besides states.

    Args:
        request: what plans are asked for.
        direction: which of the two.
    """
    saved = len(derive(request.cell, activations=request.save == "gates").saved)
    if request.save == "gates" or not saved:
        return saved
    return len(layout_of(request.cell).input_gates) if direction == "backward" else 0


@dataclass(frozen=True, kw_only=True)
class UnitPlan(KernelPlan):
    """A plan of a kernel whose threads compute units that read their own past alone.

    Batch, heads, head dim and steps are run-time values: the head dim is here because both
    directions must agree on it. The attributes that are not listed are those of `KernelPlan`.

    Attributes:
        head_dim: units per head.
        blocks_per_multiprocessor: blocks that share an SM; the compiler leaves registers for them.
        registers: registers per thread that the compiler may use.
    """

    hoists: ClassVar[bool] = True

    head_dim: int
    blocks_per_multiprocessor: int
    registers: int

    @property
    def gates_again(self) -> bool:
        """True if its kernel computes again from inputs what the forward did not save."""
        return self.direction == "backward" and self.save == "states"

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads per block."""

    @classmethod
    def of(cls, request: PlanRequest, direction: Direction, **sizes: Any) -> Self:
        """The plan of a request with such sizes, without its estimate.

        Args:
            request: what the plan is asked for.
            direction: which of the two kernels.
            sizes: of this kind of plan.
        """
        shape, limits = request.shape, request.limits
        return cls(
            direction=direction,
            arch=limits.arch,
            dtype=shape.dtype,
            tf32=request.tf32,
            save=request.save,
            head_dim=shape.head_dim,
            blocks_per_multiprocessor=1,
            registers=limits.registers_per_thread,
            **sizes,
        )

    def sharing(self, limits: Limits, blocks: int) -> Self:
        """The same plan with so many blocks per SM.

        Args:
            limits: the GPU.
            blocks: how many.
        """
        registers = limits.registers_for(self.threads * blocks)
        return replace(self, blocks_per_multiprocessor=blocks, registers=registers)

    @property
    def agreed(self) -> dict[str, object]:
        """By name, the values that the other direction's plan must have too."""
        return {**super().agreed, "head_dim": self.head_dim}

    def as_compiled(self) -> Self:
        """The plan without what its source does not depend on: equal for equal sources."""
        return replace(super().as_compiled(), head_dim=0, registers=0)

    def with_more_registers(self, limits: Limits) -> Self | None:
        """The same plan with half as many blocks per SM, rounded up.

        Args:
            limits: the GPU.
        """
        more = self.sharing(limits, (self.blocks_per_multiprocessor + 1) // 2)
        return None if more.registers == self.registers else more
