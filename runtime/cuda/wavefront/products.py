"""The products between two layers, of one chunk of steps each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...replay.recorder import refuse_recording
from ..driver.matmul import multiplies
from ..products.multiplier import kind_of_rows
from ..products.multiply import multiply_beside
from .lanes import WAYS, Lane


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
        sources = self._dropped or (read,)
        self._last, self._device = (len(flat) - 1) // count, flat.device.index
        sizes = count, len(flat) - self._last * count  # rows of a chunk, and of the last one
        kinds = [kind_of_rows(flat[:n], sources[0][:n], matrix, tf32) for n in sizes]
        self._launches = [multiplies(kind, self._device) for kind in kinds]
        needs = max(launch.needs for launch in self._launches)
        # No stream uses that of another one. Most products need none.
        kept = [matrix.new_empty(needs, dtype=torch.uint8) for _ in range(WAYS if needs else 0)]
        self._workspaces = [(memory.data_ptr(), needs) for memory in kept] or [(0, 0)] * WAYS
        self._matrix = matrix.data_ptr()
        self._sources = [source.data_ptr() for source in sources]
        # The first address and the bytes per chunk.
        size = matrix.element_size() * count
        self._steps = 0 if self._dropped else inner * size, columns * size
        self._to, self._kept = flat.data_ptr(), (to, rows, matrix, kept)
        # What its kernels depend on, besides the sizes of a call.
        self.key = matrix.dtype, tf32, mask is not None

    def multiply(
        self, chunk: int, way: int = 0, lane: Lane | None = None, recorded: bool = True
    ) -> None:
        """Launch the product of a chunk.

        Args:
            chunk: its number.
            way: whose memory it takes, of `WAYS`: chunks of another way may run beside it.
            lane: where; its stream becomes the current one if features are dropped. None for the
                current stream.
            recorded: whether a replay of the call does it again.
        """
        if self._masks and lane is not None:
            refuse_recording()  # of torch's operators on another stream
            torch.cuda.set_stream(lane.stream)
        if self._dropped:
            rows = self._changed[chunk]
            kept = self._dropped[way][: len(rows)]
            torch.mul(rows, self._scale, out=kept)
            kept.mul_(self._masks[chunk])
        source, (read, written) = self._sources[way if self._dropped else 0], self._steps
        addresses = self._matrix, source + chunk * read, self._to + chunk * written
        launch, workspace = self._launches[chunk == self._last], self._workspaces[way]
        stream = lane.handle if lane else torch._C._cuda_getCurrentRawStream(self._device)
        if recorded:
            multiply_beside(launch, addresses, workspace, stream, lane is not None)
        else:
            launch(*addresses, stream, *workspace)
        if self._masks and not self._forward:
            self._changed[chunk].mul_(self._scale).mul_(self._masks[chunk])

    def multiply_all(self, chunks: Sequence[int], recorded: bool = True) -> None:
        """Launch the products of all chunks on the current stream.

        Args:
            chunks: their numbers, in the order of computation.
            recorded: as in `multiply`.
        """
        for chunk in chunks:
            self.multiply(chunk, recorded=recorded)
