"""The products between two layers, of one chunk of steps each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..driver.cublas import blas_of

# Bytes for cuBLAS. It takes the same algorithms wherever the layers run, with the same workspace.
_WORKSPACE = 8 << 20


@dataclass(slots=True)
class Between:
    """The products from one layer to the next, of one chunk each, and dropout beside them.

    A forward drops features of what it multiplies, a backward drops those of the product. Nothing
    is allocated while chunks are multiplied: an allocation may wait for all streams of the device,
    and so for layers that wait for the product.

    Attributes:
        to: (rows, columns) of each chunk.
        rows: (rows, K) of each chunk.
        matrix: (K, columns).
        masks: of dropout, like `rows` in a forward and like `to` in a backward; empty for none.
        scale: by what dropout multiplies the features that it keeps.
        forward: whether this is one.
        tf32: whether factors of float32 may be rounded to TF32.
        workspace: of cuBLAS.
        dropped: the rows of a chunk without the features that a forward drops.
    """

    to: Sequence[Tensor]
    rows: Sequence[Tensor]
    matrix: Tensor
    masks: Sequence[Tensor]
    scale: float
    forward: bool
    tf32: bool
    workspace: Tensor = field(init=False)
    dropped: Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        self.workspace = self.matrix.new_empty(_WORKSPACE, dtype=torch.uint8)
        drops = self.forward and self.masks
        self.dropped = torch.empty_like(self.rows[0]) if drops else None

    @property
    def key(self) -> tuple[object, ...]:
        """What the kernels of its products depend on, besides the sizes of a call."""
        return self.matrix.dtype, self.tf32, bool(self.masks)

    def multiply(self, chunk: int, stream: torch.cuda.Stream) -> None:
        """Launch the product of a chunk.

        Args:
            chunk: its number.
            stream: where to launch it; it becomes the current one if features are dropped.
        """
        rows, to = self.rows[chunk], self.to[chunk]
        if self.masks:
            torch.cuda.set_stream(stream)
        if self.dropped is not None:
            kept = self.dropped[: len(rows)]
            torch.mul(rows, self.scale, out=kept)
            rows = kept.mul_(self.masks[chunk])
        multiply_on(stream.cuda_stream, self.workspace, to, rows, self.matrix, self.tf32)
        if self.masks and not self.forward:
            to.mul_(self.scale).mul_(self.masks[chunk])

    def multiply_all(self, chunks: Sequence[int]) -> None:
        """Launch the products of all chunks on the current stream.

        Args:
            chunks: their numbers, in the order of computation.
        """
        stream = torch.cuda.current_stream(self.matrix.device)
        for chunk in chunks:
            self.multiply(chunk, stream)


def multiply_on(
    stream: int, workspace: Tensor, to: Tensor, a: Tensor, b: Tensor, tf32: bool
) -> None:
    """Write the product of two matrices.

    Args:
        stream: the handle of the stream that it runs on.
        workspace: of cuBLAS, for this stream alone.
        to: (rows, columns), contiguous.
        a: (rows, K), contiguous.
        b: (K, columns), contiguous, or the transpose of such a matrix.
        tf32: whether factors of float32 may be rounded to TF32.
    """
    blas = blas_of(to.device.index)
    with blas.on(stream, workspace):
        blas.multiply(to, a, b, tf32=tf32, add=False)


def chunks_of(tensor: Tensor, columns: int, rows: int) -> Sequence[Tensor]:
    """The rows of each chunk of a contiguous tensor of all steps.

    Args:
        tensor: (T, B, ...).
        columns: per row.
        rows: per chunk.
    """
    return torch.split(tensor.view(-1, columns), rows)
