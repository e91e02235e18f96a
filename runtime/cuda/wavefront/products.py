"""The products between two layers, of one chunk of steps each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..driver.cublas import blas_of
from ..driver.row_products import RowProducts
from .lanes import WAYS, Lane

# Bytes for cuBLAS. It takes the same algorithms wherever the layers run, with the same workspace.
_WORKSPACE = 8 << 20


class Between:
    """The products from one layer to the next, of one chunk each, and dropout beside them.

    A forward drops features of what it multiplies, a backward drops those of the product. Nothing
    is allocated while chunks are multiplied: an allocation may wait for all streams of the device,
    and so for layers that wait for the product.

    Args:
        to: (T, B, …), the result: columns per row.
        rows: (T, B, …), what is multiplied: K per row.
        matrix: (K, columns), contiguous, or the transpose of such a matrix.
        steps: per chunk.
        forward: whether this is one.
        mask: of dropout, like `rows` in a forward and like `to` in a backward; None for none.
        scale: by what dropout multiplies the features that it keeps.
        tf32: whether factors of float32 may be rounded to TF32.
    """

    def __init__(
        self,
        to: Tensor,
        rows: Tensor,
        matrix: Tensor,
        steps: int,
        *,
        forward: bool,
        mask: Tensor | None,
        scale: float,
        tf32: bool,
    ) -> None:
        inner, columns = matrix.shape
        count = steps * to.shape[1]
        flat, read = to.view(-1, columns), rows.view(-1, inner)
        self._scale, self._forward = scale, forward
        self._dropped: Sequence[Tensor] = ()
        self._masks: Sequence[Tensor] = ()
        self._changed: Sequence[Tensor] = ()
        if mask is not None:
            self._masks = torch.split(mask.view(-1, mask.shape[-1]), count)
            self._changed = torch.split(read if forward else flat, count)
            if forward:
                self._dropped = [torch.empty_like(self._changed[0]) for _ in range(WAYS)]
        self._workspaces = [matrix.new_empty(_WORKSPACE, dtype=torch.uint8) for _ in range(WAYS)]
        self._kept = to, rows, matrix
        self._products = [
            RowProducts(flat, each, matrix, count, tf32) for each in self._dropped or (read,)
        ]
        # What its kernels depend on, besides the sizes of a call.
        self.key = matrix.dtype, tf32, mask is not None

    def multiply(self, chunk: int, lane: Lane, way: int = 0) -> None:
        """Launch the product of a chunk.

        Args:
            chunk: its number.
            lane: where; its stream becomes the current one if features are dropped.
            way: whose memory it takes, of `WAYS`: chunks of another way may run beside it.
        """
        if self._masks:
            torch.cuda.set_stream(lane.stream)
        products = self._products[0]
        if self._dropped:
            rows, products = self._changed[chunk], self._products[way]
            kept = self._dropped[way][: len(rows)]
            torch.mul(rows, self._scale, out=kept)
            kept.mul_(self._masks[chunk])
        lane.blas.at(lane.handle, self._workspaces[way].data_ptr(), _WORKSPACE)
        products.launch(lane.blas, chunk)
        if self._masks and not self._forward:
            self._changed[chunk].mul_(self._scale).mul_(self._masks[chunk])

    def multiply_all(self, chunks: Sequence[int]) -> None:
        """Launch the products of all chunks on the current stream.

        Args:
            chunks: their numbers, in the order of computation.
        """
        device = self._workspaces[0].device
        stream, blas = torch.cuda.current_stream(device), blas_of(device.index)
        lane = Lane(stream, stream.cuda_stream, blas)
        with blas.lock:
            for chunk in chunks:
                self.multiply(chunk, lane)
