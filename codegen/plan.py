"""Plans: how a cell is mapped onto a machine. A plan's type is its variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .block_plan import BlockPlan
from .cluster_plan import ClusterPlan
from .grid_plan import GridPlan
from .shape import Dtype, Save


@dataclass(frozen=True)
class CpuPlan:
    """One C++ kernel for a batch of sequences on the CPU's cores.

    Sizes, strides and threads are run-time values, so one binary serves all of them.

    Attributes:
        dtype: the scalar type of all tensors. float64 is the same text with another type, so that
            a gradient check in float64 tests the code that ships in float32.
    """

    dtype: Dtype = "float32"

    @property
    def scalar(self) -> str:
        """The C++ type of a number."""
        return {"float32": "float", "float64": "double"}[self.dtype]

    def __str__(self) -> str:
        return (
            f"CPU, {self.dtype}: one task a (head, tile of batch rows); recurrent matrices packed"
            " once a call; pointwise maps vectorised over units"
        )


@dataclass(frozen=True)
class AlternatingPlan:
    """A matrix product by the library and a pointwise kernel each step: any head dim, any dtype.

    Steps are captured in a CUDA graph by the chunk, so that launches do not bind. All sizes are
    run-time.

    Attributes:
        arch: the GPU architecture, as the compiler names it.
        dtype: of all tensors.
        chunk: steps of a graph.
        threads: of a block of the pointwise kernels, one a unit and batch row.
        nanoseconds: estimates of a step, forward and backward.
        binding: why no plan keeps R on chip, where one was asked for.
        tf32: whether float32 products may round to tf32.
        save: whether the forward keeps gates for the backward, or only states.
    """

    arch: str
    dtype: Dtype
    chunk: int = 32
    threads: int = 128
    nanoseconds: tuple[int, int] = (0, 0)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the source."""
        steps = [f"rnnc_{d}_{part}" for d in ("forward", "backward") for part in ("begin", "step")]
        return (*steps, "rnnc_backward_end", "rnnc_advance")

    def __str__(self) -> str:
        return (
            f"alternating ({self.arch}, {self.dtype}): a matrix product and a pointwise kernel a"
            f" step, {self.chunk} steps a CUDA graph\n"
            f"  forward:  about {self.nanoseconds[0]} ns a step\n"
            f"  backward: about {self.nanoseconds[1]} ns a step\n"
            f"  keeps {self.save} for the backward"
            + (f"; not on chip: {self.binding}" if self.binding else "")
        )


FusedPlan = BlockPlan | ClusterPlan | GridPlan
CudaPlan = FusedPlan | AlternatingPlan
Plan = CpuPlan | CudaPlan

Variant = Literal["auto", "block", "alternating"]
VARIANTS: tuple[Variant, ...] = ("auto", "block", "alternating")
