"""Plans of a matrix product and a pointwise kernel each step."""

from __future__ import annotations

from dataclasses import dataclass

from .shape import Dtype, Save


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
