"""The plan of a cell's C++ kernels on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from ..shape import DIRECTIONS, Direction, Dtype, PlanError, Reverse, Save

# The C++ type of a number.
SCALARS: dict[Dtype, str] = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class CpuPlan:
    """One C++ library with the forward and the backward kernel of a cell.

    Sizes, strides and the number of threads are run-time values, so one library serves all sizes.

    Attributes:
        dtype: the scalar type of all tensors. The float64 kernels are the same text with another
            scalar type, so a gradient check in float64 tests the code that runs in float32.
        reverse: which heads run from the last step to the first.
        single_step: whether the library runs single steps of all layers of a module. They are
            compiled by themselves: who runs sequences does not wait for them.
        masked: whether rows have lengths of their own, or resets.
    """

    dtype: Dtype = "float32"
    reverse: Reverse = False
    single_step: bool = False
    masked: bool = False

    save: ClassVar[Save] = "gates"
    template: ClassVar[str] = "cpu/kernel.cpp.jinja"
    headers: ClassVar[str] = "cpu/lib"
    more_functions: ClassVar[str] = "cpu/functions"
    lanes: ClassVar[str | None] = "cpu/lanes"
    # Of the table's functions, those that math.h has; a forward calls them by name.
    provided: ClassVar[frozenset[str]] = frozenset({"sigmoid"})
    provided_to_stages: ClassVar[frozenset[str]] = frozenset()
    passed: ClassVar[frozenset[str]] = frozenset()
    early_sums: ClassVar[bool] = False
    directions: ClassVar[tuple[Direction, ...]] = DIRECTIONS

    def as_compiled(self) -> Self:
        """The plan without what is no part of the source: the plan itself."""
        return self

    def __post_init__(self) -> None:
        if self.dtype not in SCALARS:
            raise PlanError(
                "CPU kernels",
                f"dtype={self.dtype!r}",
                f"one of {', '.join(SCALARS)}: half precision is computed in float32",
                'dtype="float32"',
            )

    @property
    def linked(self) -> tuple[str, ...]:
        """Files of `headers`, without a suffix, that all cells are linked with."""
        return ("product", "dots") if self.single_step else ("product",)

    @property
    def scalar(self) -> str:
        """The C++ type of a number."""
        return SCALARS[self.dtype]

    def __str__(self) -> str:
        return (
            f"CPU, {self.dtype}: one task per (head, tile of batch rows); recurrent matrices packed"
            " once per call; pointwise maps vectorised over units"
        )
