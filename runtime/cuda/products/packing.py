"""Copies between packed rows and padded ones, by a launch for each tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from ...targets.by_torch import Packing
from ..arguments import NUMBER, POINTER, fields, structure
from ..driver.streams import on_device
from .masks import blocks_of, mask_kernel, widest_word

# Mirror of `MoveArguments` of templates/cuda/masks.cu.
_Move = structure(
    "MoveArguments",
    *fields(POINTER, "starts source to"),
    *fields(NUMBER, "count batch words packed_row padded_row to_padded word_bytes"),
)


class CudaPacking(Packing):
    """`Packing` on a GPU."""

    def __init__(self, starts: Tensor, sizes: tuple[int, int], total: int) -> None:
        self._starts, self.sizes, self._total = starts, sizes, total

    def pad(self, rows: Tensor) -> Tensor:
        """Return packed rows as padded ones."""
        rows = rows.contiguous()
        to = rows.new_empty(*self.sizes, *rows.shape[1:])
        self._move(rows, to, rows.stride(0), to.stride(1), math.prod(rows.shape[1:]), True)
        return to

    def pack(self, parts: Sequence[Tensor]) -> Tensor:
        """Return padded rows as packed ones, several tensors beside each other."""
        widths = [math.prod(part.shape[2:]) for part in parts]
        to, first = parts[0].new_empty(self._total, sum(widths)), 0
        for part, width in zip(parts, widths, strict=True):
            own = part if _in_rows(part) else part.contiguous()
            self._move(own, to[:, first:], to.stride(0), own.stride(1), width, False)
            first += width
        return to

    def _move(
        self, source: Tensor, to: Tensor, packed: int, padded: int, width: int, to_padded: bool
    ) -> None:
        """Copy the rows; strides and the width of a row are in elements."""
        size, (steps, batch) = source.element_size(), self.sizes
        lengths = [n * size for n in (width, packed, padded)]
        word = widest_word((source.data_ptr(), to.data_ptr(), *lengths))
        places = self._starts.data_ptr(), source.data_ptr(), to.data_ptr()
        index = source.device.index
        with on_device(source.device):
            kernel = mask_kernel("rnnc_move_rows", index)
            words, *strides = (n // word for n in lengths)
            numbers = steps, batch, words, *strides, int(to_padded), word
            kernel(blocks_of(steps * batch * words, index), _Move(*places, *numbers))


def _in_rows(part: Tensor) -> bool:
    """Return True if rows have no gaps, and follow each other by one stride."""
    steps_apart = part.stride(0) == part.shape[1] * part.stride(1)
    return steps_apart and part[0, 0].is_contiguous()
