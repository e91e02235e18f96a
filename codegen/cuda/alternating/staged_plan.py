"""The plan of a step of several launches, for a cell whose step has stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...shape import counted
from .plan import AlternatingPlan


@dataclass(frozen=True, kw_only=True)
class StagedAlternatingPlan(AlternatingPlan):
    """Several launches per step: a product and a kernel of some stages each, or a kernel of both.

    Attributes:
        first_stages: the first stage of each kernel of a step; further stages of a kernel follow
            without a product of a matrix.
        by_head: whether units are reduced to numbers of a head, so that a block has all units of a
            batch row and a head. Else a thread has one unit.
    """

    # The kernels of later stages read what the forward saved, behind those that write gradients.
    gradients_in_place: ClassVar[bool] = False

    first_stages: tuple[int, ...]
    by_head: bool

    @property
    def template(self) -> str:
        """The name of the template of its source."""
        return "cuda/staged/alternating.cu.jinja"

    @property
    def threads(self) -> int:
        """Threads per block."""
        return 256 if self.by_head else super().threads

    @property
    def step_names(self) -> tuple[str, ...]:
        """The kernels of a step, in order; products of called gates stand between them."""
        (first,) = super().step_names
        return (first, *(f"{first}_{i}" for i in range(1, len(self.first_stages))))

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the translation unit."""
        return (*super().kernel_names, *self.step_names[1:])

    @property
    def mapping(self) -> str:
        """Which kernels run per step, in words."""
        products = "" if self.own else "matrix products and "
        kernels = counted(len(self.first_stages), "kernel")
        return f"{products}{kernels} of stages per step, {self.chunk} steps per CUDA graph"
