"""Plans of a matrix product and a pointwise map each step, launched step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from ...shape import Direction, Dtype, Save, counted

Product = Literal["library", "own"]

STRIP = 8  # rows of R, or backwards columns, that an own product's instruction multiplies
CHUNK = 32  # of K, in two-byte elements: 64 bytes a row


@dataclass(frozen=True)
class OwnProduct:
    """The sizes of a step's kernel that multiplies too.

    Attributes:
        rows: batch rows of a block, a multiple of 16.
        warps: of a block; they share K.
        split: blocks of a cluster that share K of the backward; 1 for none.
        ahead: chunks of K that a warp has sent for before it multiplies, forward and backward.
        shared: bytes of shared memory of a block, forward and backward.
        overlapped: whether a step's blocks begin while the step before ends.
    """

    rows: int
    warps: int
    split: int
    ahead: tuple[int, int]
    shared: tuple[int, int]
    overlapped: bool

    def __str__(self) -> str:
        clusters = f" (clusters of {self.split} share K backwards)" if self.split > 1 else ""
        return (
            f"blocks of 8 units, {self.rows} batch rows and {counted(self.warps, 'warp')}"
            f"{clusters}, {self.shared[0]} and {self.shared[1]} bytes of shared memory;"
            f" steps {'overlap' if self.overlapped else 'do not overlap'}"
        )


@dataclass(frozen=True)
class AlternatingPlan:
    """A launch or two each step: any head dim, any dtype.

    The product is the library's, with a pointwise kernel behind it; or both are one kernel, which
    reads R from L2. Steps are captured in a CUDA graph by the chunk, so that launches do not bind.
    All sizes are run-time.

    Attributes:
        arch: the GPU architecture, as the compiler names it.
        dtype: of all tensors.
        chunk: steps of a graph.
        own: the kernel that multiplies too; None where the library multiplies.
        nanoseconds: estimates of a step, forward and backward.
        binding: why no plan keeps R on chip, where one was asked for.
        tf32: whether float32 products may round to tf32.
        save: whether the forward keeps gates for the backward, or only states.
    """

    arch: str
    dtype: Dtype
    chunk: int = 32
    own: OwnProduct | None = None
    nanoseconds: tuple[int, int] = (0, 0)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"

    @property
    def variant(self) -> str:
        """The kind of plan, in the word that asks for it."""
        return "alternating"

    @property
    def product(self) -> Product:
        """Who multiplies."""
        return "own" if self.own else "library"

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.own.warps if self.own else 128

    def of(self, direction: Direction) -> Self:
        """The plan whose kernels run in a direction: this one."""
        return self

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the source."""
        steps = [f"rnnc_{d}_{part}" for d in ("forward", "backward") for part in ("begin", "step")]
        return (*steps, "rnnc_backward_end", "rnnc_advance")

    def __str__(self) -> str:
        step = "one kernel a step" if self.own else "a matrix product and a pointwise kernel a step"
        return (
            f"alternating ({self.arch}, {self.dtype}): {step}, {self.chunk} steps a CUDA graph\n"
            + (f"  product:  {self.own}\n" if self.own else "  product:  the library's\n")
            + f"  forward:  about {self.nanoseconds[0]} ns a step\n"
            f"  backward: about {self.nanoseconds[1]} ns a step\n"
            f"  keeps {self.save} for the backward"
            + (f"; not on chip: {self.binding}" if self.binding else "")
        )
