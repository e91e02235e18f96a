"""What all fused plans have: one kernel for all steps of a direction, and what is known of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Generic, Self, TypeVar

from ..shape import Direction, Dtype, Save

Kernel = TypeVar("Kernel")


@dataclass(frozen=True)
class FusedPlanBase(ABC, Generic[Kernel]):
    """One kernel a direction runs all steps; batch and length are run-time values.

    Attributes:
        arch: the GPU architecture, as the compiler names it.
        dtype: of all tensors.
        head_dim: units of a head.
        rows: batch rows that share a block, a cluster or a group of blocks.
        forward: sizes of the forward kernel.
        backward: sizes of the backward kernel.
        nanoseconds: estimates of a step, forward and backward, where a shape was given.
        binding: the constraint that a larger head would break.
        tf32: whether float32 products may round to tf32.
        save: whether the forward keeps gates for the backward, or only states.
    """

    arch: str
    dtype: Dtype
    head_dim: int
    rows: int
    _: KW_ONLY
    forward: Kernel
    backward: Kernel
    nanoseconds: tuple[int, int] = (0, 0)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"

    @cached_property  # it is asked for in every call
    def kernels(self) -> dict[str, Kernel]:
        """The sizes of each kernel by its name in the source."""
        return {"rnnc_forward": self.forward, "rnnc_backward": self.backward}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the source."""
        return tuple(self.kernels)

    @property
    def variant(self) -> str:
        """The kind of plan, in the word that asks for it."""
        return type(self).__name__.removesuffix("Plan").lower()

    @property
    @abstractmethod
    def mapping(self) -> str:
        """Who computes which rows, in words."""

    def of(self, direction: Direction) -> Self:
        """The plan whose kernel runs in a direction: this one."""
        return self

    def described(self, direction: Direction) -> str:
        """The sizes of a direction's kernel and its estimate, in words."""
        forward = direction == "forward"
        kernel = self.forward if forward else self.backward
        return f"{kernel}; about {self.nanoseconds[0 if forward else 1]} ns a step"

    def __str__(self) -> str:
        return (
            f"{self.variant} ({self.arch}, {self.dtype}, head dim {self.head_dim}):"
            f" {self.mapping}\n"
            f"  forward:  {self.described('forward')}\n"
            f"  backward: {self.described('backward')}\n"
            f"  keeps {self.save} for the backward; binds: {self.binding}"
        )
