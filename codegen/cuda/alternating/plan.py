"""The plan of a matrix product and a pointwise kernel per step, launched step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from ...shape import counted
from ..kernel_plan import KernelPlan, LaunchShape
from ..mma import K_TILE_BYTES, WARP

Product = Literal["library", "own"]

K_TILE = K_TILE_BYTES // 2  # elements of two bytes


@dataclass(frozen=True)
class OwnProduct:
    """The sizes of a fused step: one kernel with its own product.

    Attributes:
        rows: batch rows per block, a multiple of 16.
        warps: warps per block, which divide K.
        split: blocks per cluster that share K of the backward; 1 for no clusters.
        ahead: k-tiles that a warp loads before the product needs them.
        shared: bytes of shared memory per block.
        overlapped: whether a step's blocks start while the previous step ends.
    """

    rows: int
    warps: int
    split: int
    ahead: int
    shared: int
    overlapped: bool

    def __str__(self) -> str:
        clusters = f" (clusters of {self.split} share K)" if self.split > 1 else ""
        return (
            f"blocks of 8 units, {self.rows} batch rows and {counted(self.warps, 'warp')}"
            f"{clusters}, {self.shared} bytes of shared memory;"
            f" steps {'overlap' if self.overlapped else 'do not overlap'}"
        )


@dataclass(frozen=True, kw_only=True)
class AlternatingPlan(KernelPlan):
    """One or two launches per step: any head dim, any dtype.

    Either the matrix library multiplies and a pointwise kernel follows, or one kernel does both and
    reads R from L2. Chunks of steps are captured in CUDA graphs, so launches take little time. All
    sizes are run-time values. The attributes that are not listed are those of `KernelPlan`.

    Attributes:
        chunk: steps per graph.
        own: the sizes of the kernel that multiplies too; None where the library multiplies.
    """

    kind: ClassVar[str] = "alternating"
    steps_per_launch: ClassVar[Literal["all", "one"]] = "one"

    chunk: int = 32
    own: OwnProduct | None = None

    @property
    def cut(self) -> tuple[int, ...]:
        """Sizes in which the plan cuts the batch."""
        return (self.own.rows,) if self.own else ()

    @property
    def product(self) -> Product:
        """Multiplier: the matrix library, or the step's own kernel."""
        return "own" if self.own else "library"

    @property
    def threads(self) -> int:
        """Threads per block."""
        return WARP * self.own.warps if self.own else 128

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        return LaunchShape(self.threads)

    @property
    def step_names(self) -> tuple[str, ...]:
        """The kernels of a step, in order."""
        return (f"rnnc_{self.direction}_step",)

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the translation unit."""
        parts = ("begin", "step") if self.direction == "forward" else ("begin", "step", "end")
        return (*(f"rnnc_{self.direction}_{part}" for part in parts), "rnnc_advance")

    def brief(self, backward: Self) -> str:
        """In a few words, what distinguishes a pair of alternating plans from other pairs."""
        rows = f", {self.own.rows} rows" if self.own else ""
        return f"alternating: the {self.product} product{rows}"

    @property
    def mapping(self) -> str:
        """Which kernels run per step, in words."""
        step = "one kernel" if self.own else "a matrix product and a pointwise kernel"
        return f"{step} per step, {self.chunk} steps per CUDA graph"

    @property
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""
        return f"product: {self.own or 'matrix library'}"
