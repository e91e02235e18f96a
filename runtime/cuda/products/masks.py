"""Launches of templates/cuda/masks.cu: masks as kernels read them, and states as products do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from ....cellspec.cell import CellSpec
from ....codegen.shape import Reverse
from ...call.masks import RESTART, Masks, read_states, sources_read, strides_of_reset_value
from ..arguments import NUMBER, POINTER, fields, structure
from ..driver.device import device_limits
from ..driver.streams import on_device
from ..load import unit_kernel

# As in templates/cuda/masks.cu.
THREADS, ROWS, PADDING = 128, 8, 4
_ROWS_OF_BLOCK = THREADS // 32  # of `rnnc_order_rows`, which compares each row with all others
_MOST_COMPARED = 8192  # rows; beyond, sorting takes less time
_WORDS = (16, 8, 4, 2)  # bytes
_BLOCKS_PER_MULTIPROCESSOR = 16
# Gives a kernel by its name, on a device.
mask_kernel = partial(unit_kernel, "masks", THREADS)
# Mirrors of its structs.
_Order = structure(
    "OrderArguments", *fields(POINTER, "lengths order"), *fields(NUMBER, "count batch")
)
_Pack = structure(
    "PackArguments", *fields(POINTER, "steps order restarts"), *fields(NUMBER, "count batch")
)
_Read = structure(
    "ReadArguments",
    *fields(POINTER, "steps states initial reset read first"),
    *fields(NUMBER, "count batch words reset_time reset_row reverse word_bytes"),
)


def without_gaps(values: Sequence[Tensor]) -> list[Tensor]:
    """Return reset values whose heads and units have no gaps, so that kernels can copy them."""
    return [
        v if _has_no_gaps(v) else v.clone(memory_format=torch.contiguous_format) for v in values
    ]


def _has_no_gaps(value: Tensor) -> bool:
    size, strides = value.element_size(), value.stride()
    if strides[-2:] != (value.shape[-1], 1):
        return False
    if value.ndim < 4 or not value.numel():
        return True
    widest = widest_word((value.shape[-1] * size,))
    return not any(n % widest for n in (value.data_ptr(), *(n * size for n in strides[:2])))


def mask_fields(masks: Masks, reset_to: Sequence[Tensor]) -> list[int | Tensor | None]:
    """Return the fields of `MaskArguments` in order, with values that `without_gaps` gave."""
    strides = [strides_of_reset_value(value) for value in reset_to]
    restarts, order = masks.restarts, masks.order
    if restarts is None:
        directions = masks.steps.view(-1, *masks.steps.shape[-2:])
        if masks.longest is not None:
            order = order_of(masks.longest.long(), directions.shape[1])
        both = [restarts_of(steps, order) for steps in directions]
        restarts = both[0] if len(both) == 1 else torch.stack(both)
    return [
        *(restarts, masks.longest, order),
        *(time for time, *_ in strides),
        *(row for _, row, _ in strides),
        *reset_to,
    ]


def widest_word(numbers: Sequence[int]) -> int:
    """Return the bytes of the widest word that divides addresses, sizes and strides in bytes."""
    return next(w for w in _WORDS if not any(n % w for n in numbers))


def blocks_of(words: int, device: int) -> tuple[int, int, int]:
    """Return the grid of a launch that copies so many words, at least one."""
    most = device_limits(device).multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
    return min(math.ceil(words / THREADS), most), 1, 1


def padded_steps(count: int) -> int:
    """Return how many bytes restarts take: one per step, and zeros on both sides."""
    return math.ceil(count / 4) * 4 + 2 * PADDING


def order_of(lengths: Tensor, count: int) -> Tensor:
    """Return the order of rows in tiles, as `Masks` has it; rows of one length keep theirs.

    The lengths are (B,) of int64, contiguous; they are clamped to 0 and T, the count. The result is
    (2, B) of int32.
    """
    batch = len(lengths)
    if not lengths.is_cuda or not 0 < batch <= _MOST_COMPARED:
        rows = lengths.clamp(0, count).sort(stable=True, descending=True).indices
        return torch.stack((rows, rows.argsort())).to(torch.int32)
    found = lengths.new_empty(2, batch, dtype=torch.int32)
    with on_device(lengths.device):
        given = _Order(lengths.data_ptr(), found.data_ptr(), count, batch)
        grid = math.ceil(batch / _ROWS_OF_BLOCK), 1, 1
        mask_kernel("rnnc_order_rows", lengths.device.index)(grid, given)
    return found


def restarts_of(steps: Tensor, order: Tensor | None) -> Tensor:
    """Return the rows that restart before each step, a bit for each, as `MaskArguments` has it.

    The steps are (T, B) of uint8, contiguous. The result is (B / 8, T + padding on both sides) of
    uint8; the row at the first of 8 places has the lowest bit.
    """
    count, batch = steps.shape
    groups = math.ceil(batch / ROWS)
    if not steps.is_cuda or not steps.numel():
        placed = steps if order is None else steps[:, order[0]]
        restarts = functional.pad(placed == RESTART, (0, groups * ROWS - batch))
        bits = restarts.view(count, groups, ROWS).long() << torch.arange(ROWS, device=steps.device)
        after = padded_steps(count) - PADDING - count
        return functional.pad(bits.sum(2).t(), (PADDING, after)).to(torch.uint8)
    found = steps.new_empty(groups, padded_steps(count))
    with on_device(steps.device):
        grid = math.ceil(groups * count / THREADS), 1, 1
        place = 0 if order is None else order.data_ptr()
        given = _Pack(steps.data_ptr(), place, found.data_ptr(), count, batch)
        mask_kernel("rnnc_pack_masks", steps.device.index)(grid, given)
    return found


def states_read(
    cell: CellSpec,
    masks: Masks,
    states: Sequence[Tensor],
    initial_states: Sequence[Tensor],
    reset_to: Sequence[Tensor],
    reverse: Reverse,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the states of `read_states` in `runtime/call/masks.py`, by one launch per state.

    The states after each step are (T, B, N, D) and the initial ones (B, N, D), contiguous. The
    reset values are those that `without_gaps` gave.
    """
    if not masks.steps.is_cuda or not masks.steps.numel():
        return read_states(cell, masks, states, initial_states, reverse)
    found, firsts = list(states), list(initial_states)
    count, batch = masks.steps.shape[-2:]
    order = 2 if reverse == "half" else int(reverse)
    device = masks.steps.device
    with on_device(device):
        kernel = mask_kernel("rnnc_read_states", device.index)
        for i in sources_read(cell):
            state, initial, value = states[i], initial_states[i], reset_to[i]
            read, first = torch.empty_like(state), torch.empty_like(initial)
            places = [t.data_ptr() for t in (state, initial, value, read, first)]
            time, row, _ = strides_of_reset_value(value)
            size = state.element_size()
            lengths = [n * size for n in (initial[0].numel(), time, row)]
            # A word is of one direction.
            word = widest_word((*places, *lengths, lengths[0] // max(order, 1)))
            words, reset_time, reset_row = (n // word for n in lengths)
            sizes = count, batch, words, reset_time, reset_row, order, word
            given = _Read(masks.steps.data_ptr(), *places, *sizes)
            kernel(blocks_of(count * batch * words, device.index), given)
            found[i], firsts[i] = read, first
    return found, firsts
