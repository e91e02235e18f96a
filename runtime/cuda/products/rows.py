"""Masks and rows of a module's call on a GPU: launches of templates/cuda/masks.cu."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...call.masks import MadeMasks, masks_by_torch
from ...call.ragged import Ragged
from ..arguments import NUMBER, POINTER, fields, structure
from ..driver.streams import on_device
from .masks import ROWS, THREADS, blocks_of, mask_kernel, order_of, padded_steps, widest_word

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
    given = lengths, order, reset, steps, restarts, longest
    places = [0 if t is None else t.data_ptr() for t in given]
    strides = (0, 0) if reset is None else reset.stride()
    bits = sum(reverse << i for i, reverse in enumerate(reverses))
    with on_device(like.device):
        grid = math.ceil(groups * count / THREADS), len(reverses), 1
        kernel = mask_kernel("rnnc_make_masks", like.device.index)
        kernel(grid, _Make(*places, count, batch, *strides, bits))
    return MadeMasks(steps, restarts, longest, order)


def rows_that_run(x: Tensor, ragged: Ragged, made: MadeMasks) -> Tensor:
    """Return the rows of x, zero where a step does not run, by one launch."""
    if not x.is_cuda or not x.numel() or x.stride(2) != 1:
        return ragged.cleaned(x)
    steps = made.steps[0]
    count, batch, features = x.shape
    to, size = x.new_empty(x.shape), x.element_size()
    lengths = [n * size for n in (features, x.stride(0), x.stride(1))]
    word = widest_word((x.data_ptr(), to.data_ptr(), *lengths))
    words, time, row = (n // word for n in lengths)
    places = steps.data_ptr(), x.data_ptr(), to.data_ptr()
    index = x.device.index
    with on_device(x.device):
        kernel = mask_kernel("rnnc_select_rows", index)
        given = _Select(*places, count, batch, words, time, row, word)
        kernel(blocks_of(count * batch * words, index), given)
    return to
