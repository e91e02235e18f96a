"""`Shape`: the sizes and dtype of a call, and the error of a plan that does not exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..errors import RnncError

Dtype = Literal["float32", "float64", "bfloat16", "float16"]
ELEMENT_BYTES: dict[Dtype, int] = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2}
#: Heads, units per head, rows or steps of a call: kernels count them in an int.
MOST_COUNT = 2**31 - 2**10

# The precision of products of float32 on a GPU; None for what torch says of recurrent networks.
Precision = Literal["ieee", "tf32"] | None
PRECISIONS: tuple[Precision, ...] = (None, "ieee", "tf32")
Save = Literal["gates", "states"]
SAVES: tuple[Save, ...] = ("gates", "states")


# Which heads run from the last step to the first: none, all, or the second half of them, which is
# the other direction of a layer.
Reverse = Literal[False, True, "half"]

# Whether batch rows have lengths and resets; "stored": and values after resets that differ between
# steps.
Masked = Literal[False, True, "stored"]

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")


class PlanError(RnncError):
    """A plan that does not exist; the message names the binding constraint."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a call: B batch rows, T steps, N heads, D units per head, and the dtype.

    `fill` is the share of the steps of all rows that run, where rows come in the order of their
    lengths, the longest first. It is 1 where all rows run all steps, or in any other order.

    Raises:
        PlanError: a size is not positive or too large for an int, or the dtype is unknown.

    Example:
        >>> from rnnc.codegen.shape import Shape
        >>> print(Shape(heads=12, head_dim=64))
        12 x 64, batch 16, 1024 steps, bfloat16
    """

    heads: int
    head_dim: int
    batch: int = 16
    steps: int = 1024
    dtype: Dtype = "bfloat16"
    fill: float = 1.0

    def __post_init__(self) -> None:
        for word in ("heads", "head_dim", "batch", "steps"):
            number = getattr(self, word)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise PlanError(
                    "shape",
                    f"{word}={number!r}",
                    "a whole number, at least 1",
                    f"{word}=1",
                )
            if number > MOST_COUNT:
                raise PlanError(
                    "shape",
                    f"{word}={number}" if number < 10**30 else f"{word} of more than 30 digits",
                    f"at most {MOST_COUNT}: kernels count in 32 bits",
                    f"{word}={MOST_COUNT}",
                )
        if not 0 < self.fill <= 1:
            raise PlanError("shape", f"fill={self.fill!r}", "more than 0, at most 1", "fill=1")
        if self.dtype not in ELEMENT_BYTES:
            raise PlanError(
                "shape",
                f"dtype={self.dtype!r}",
                f"one of {', '.join(ELEMENT_BYTES)}",
                'dtype="bfloat16"',
            )

    @property
    def element_bytes(self) -> int:
        """Bytes per number in memory."""
        return ELEMENT_BYTES[self.dtype]

    def __str__(self) -> str:
        filled = "" if self.fill == 1 else f", {self.fill:.0%} of the rows' steps"
        return (
            f"{self.heads} x {self.head_dim}, batch {self.batch}, {self.steps} steps{filled},"
            f" {self.dtype}"
        )


def counted(number: int, word: str) -> str:
    """A count with its noun, such as `2 rows`."""
    return f"{number} {word}{'s' * (number != 1)}"
