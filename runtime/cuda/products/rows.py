"""Rows with lengths and resets on a GPU: their masks, those that run, packed and padded ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...call.masks import MadeMasks, masks_by_torch
from ...call.ragged import Ragged
from ...targets.by_torch import Packing
from ..arguments import NUMBER, POINTER, fields, structure
from ..driver.streams import on_device
from ..launch import filled
from .masks import ROWS, THREADS, copy_rows, mask_kernel, order_of, padded_steps

# Mirrors of the structs of templates/cuda/masks.cu.
_Make = structure(
    "MakeArguments",
    *fields(POINTER, "lengths order reset steps restarts longest"),
    *fields(NUMBER, "count batch reset_time reset_row reverses"),
)
_Select = structure(
    "SelectArguments",
    *fields(POINTER, "steps source to"),
    *fields(NUMBER, "count batch words from_time from_row word_bytes"),
)


def made_masks(
    ragged: Ragged, sizes: tuple[int, int], device: torch.device, reverses: Sequence[bool]
) -> MadeMasks:
    """Return the masks of a call of all layers, by one launch."""
    batch, count = sizes
    lengths, reset = ragged.lengths, ragged.reset
    like = reset if lengths is None else lengths
    if like is None or not like.is_cuda or not batch * count:
        return masks_by_torch(ragged, sizes, device, reverses)
    groups = math.ceil(batch / ROWS)
    steps = like.new_empty(len(reverses), count, batch, dtype=torch.uint8)
    padded = padded_steps(count)
    restarts = like.new_empty(len(reverses), groups, padded, dtype=torch.uint8)
    longest = order = None
    if lengths is not None:
        lengths = lengths.contiguous()
        longest = like.new_empty(batch, dtype=torch.int32)
    if lengths is not None and ragged.starts is None:  # packed rows lie in order
        order = order_of(lengths, count)
    strides = (0, 0) if reset is None else reset.stride()
    bits = sum(reverse << i for i, reverse in enumerate(reverses))
    given = lengths, order, reset, steps, restarts, longest, count, batch, *strides, bits
    with on_device(like.device):
        grid = math.ceil(groups * count / THREADS), len(reverses), 1
        kernel = mask_kernel("rnnc_make_masks", like.device.index)
        kernel(grid, filled(_Make, *given))
    return MadeMasks(steps, restarts, longest, order)


def rows_that_run(x: Tensor, ragged: Ragged, made: MadeMasks) -> Tensor:
    """Return the rows of x, zero where a step does not run, by one launch."""
    if not x.is_cuda or not x.numel() or x.stride(2) != 1:
        return ragged.cleaned(x)
    to, lengths = x.new_empty(x.shape), (x.shape[2], x.stride(0), x.stride(1))
    copy_rows("rnnc_select_rows", _Select, (made.steps[0], x, to), x.shape[:2], lengths)
    return to


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
        lengths = math.prod(rows.shape[1:]), rows.stride(0), to.stride(1)
        copy_rows("rnnc_move_rows", _Move, (self._starts, rows, to), self.sizes, lengths, True)
        return to

    def pack(self, parts: Sequence[Tensor]) -> Tensor:
        """Return padded rows as packed ones, several tensors beside each other."""
        widths = [math.prod(part.shape[2:]) for part in parts]
        to, first = parts[0].new_empty(self._total, sum(widths)), 0
        for part, width in zip(parts, widths, strict=True):
            own = part if _in_rows(part) else part.contiguous()
            tensors, lengths = (
                (self._starts, own, to[:, first:]),
                (width, to.stride(0), own.stride(1)),
            )
            copy_rows("rnnc_move_rows", _Move, tensors, self.sizes, lengths, False)
            first += width
        return to


def _in_rows(part: Tensor) -> bool:
    """Return True if rows have no gaps, and follow each other by one stride."""
    steps_apart = part.stride(0) == part.shape[1] * part.stride(1)
    return steps_apart and part[0, 0].is_contiguous()
