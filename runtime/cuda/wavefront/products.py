"""Products between two layers, of one chunk of steps each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ....codegen.cuda.wavefront.partition import PRODUCT_CLUSTER
from ...call.requests import LayersCall
from ...program.ops import Running
from ...program.recorder import issue, refuse_recording
from ..driver.matmul import Multiplies, multiplies
from ..driver.streams import current_stream
from ..products.multiply import Multiply, kind_of_rows
from .lanes import Lane


class Chunks(NamedTuple):
    """Chunks of steps of a call, the last maybe shorter; descending ones begin with the last."""

    steps: int
    size: int
    descending: bool

    @property
    def indices(self) -> range:
        """Chunks in the order of computation."""
        count = math.ceil(self.steps / self.size)
        return range(count - 1, -1, -1) if self.descending else range(count)


class Between:
    """Products from one layer to the next, of one chunk each, and dropout beside them.

    A forward drops features of what it multiplies, a backward drops those of the product. All
    memory is allocated ahead of the first product, on the stream that frees it.

    The result `to` and `rows`, which are multiplied, are (T, B, …), and the matrix (K, columns),
    contiguous, or the transpose of such a matrix. The mask of dropout is like `rows` in a forward
    and like `to` in a backward.

    They are `bounded` if their kernels have clusters of at most `PRODUCT_CLUSTER` blocks, which
    find room beside the layers of a wavefront.
    """

    def __init__(
        self,
        asked: LayersCall,
        chunks: Chunks,
        to: Tensor,
        rows: Tensor,
        matrix: Tensor,
        mask: Tensor | None,
    ) -> None:
        (inner, columns), forward = matrix.shape, not chunks.descending
        count = chunks.size * to.shape[1]
        flat, read = to.view(-1, columns), rows.view(-1, inner)
        self._scale, self._forward = asked.call.scale, forward
        self._dropped: Tensor | None = None
        self._masks: Sequence[Tensor] = ()
        self._changed: Sequence[Tensor] = ()
        if mask is not None:
            self._masks = torch.split(mask.view(-1, mask.shape[-1]), count)
            self._changed = torch.split(read if forward else flat, count)
            if forward:
                self._dropped = torch.empty_like(self._changed[0])
        source = read if self._dropped is None else self._dropped
        self._last, self._device = (len(flat) - 1) // count, flat.device.index
        sizes = count, len(flat) - self._last * count  # rows of a chunk, and of the last one
        tf32 = asked.layer_call.tf32
        kinds = [kind_of_rows(flat[:n], source[:n], matrix, tf32) for n in sizes]
        self._launches = [(kind, multiplies(kind, self._device, PRODUCT_CLUSTER)) for kind in kinds]
        needs = max(launch.needs for _, launch in self._launches)
        self.bounded = all(is_bounded(launch) for _, launch in self._launches)
        # No stream uses that of another one. Most products need none.
        kept = matrix.new_empty(needs, dtype=torch.uint8) if needs else None
        self._workspace = (0 if kept is None else kept.data_ptr()), needs
        self._matrix = matrix.data_ptr()
        self._source = source.data_ptr()
        # The first address and the bytes per chunk.
        size = matrix.element_size() * count
        self._steps = 0 if self._dropped is not None else inner * size, columns * size
        self._to, self._kept = flat.data_ptr(), (to, rows, matrix, kept)

    def multiply(self, chunk: int, lane: Lane | None = None) -> None:
        """Launch the product of a chunk, by its number; a lane of None is the current stream."""
        if self._masks and lane is not None:
            refuse_recording()  # of torch's operators on another stream
            with torch.cuda.stream(lane.stream):
                self._multiply(chunk, lane)
        else:
            self._multiply(chunk, lane)

    def _multiply(self, chunk: int, lane: Lane | None) -> None:
        """Launch the product of a chunk; torch's stream is that of the lane if there is dropout."""
        if self._dropped is not None:
            rows = self._changed[chunk]
            kept = self._dropped[: len(rows)]
            torch.mul(rows, self._scale, out=kept)
            kept.mul_(self._masks[chunk])
        read, written = self._steps
        addresses = self._matrix, self._source + chunk * read, self._to + chunk * written
        kind, launch = self._launches[chunk == self._last]
        own, handle = self._workspace, lane.handle if lane else None
        stream = current_stream(self._device)
        issue(Multiply(kind, launch, addresses, self._device, own, handle), Running(stream))
        if self._masks and not self._forward:
            self._changed[chunk].mul_(self._scale).mul_(self._masks[chunk])


def is_bounded(product: Multiplies) -> bool:
    """Return True if the kernel of a product has clusters of at most `PRODUCT_CLUSTER` blocks."""
    return product.cluster is not None and product.cluster <= PRODUCT_CLUSTER
