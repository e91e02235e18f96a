"""Launches of templates/cuda/masks.cu: masks as kernels read them, and states as products do."""

from __future__ import annotations

import ctypes
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
    uint8; the row at the first of 8 places has the lowest bit. By operators of torch: on a GPU
    `made_masks` makes it with the masks, where there are any steps and rows.
    """
    count, batch = steps.shape
    groups = math.ceil(batch / ROWS)
    placed = steps if order is None else steps[:, order[0]]
    restarts = functional.pad(placed == RESTART, (0, groups * ROWS - batch))
    bits = restarts.view(count, groups, ROWS).long() << torch.arange(ROWS, device=steps.device)
    after = padded_steps(count) - PADDING - count
    return functional.pad(bits.sum(2).t(), (PADDING, after)).to(torch.uint8)


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
    order = 2 if reverse == "half" else int(reverse)
    for i in sources_read(cell):
        given = masks.steps, states[i], initial_states[i], reset_to[i]
        found[i], firsts[i] = torch.empty_like(states[i]), torch.empty_like(initial_states[i])
        time, row, _ = strides_of_reset_value(reset_to[i])
        copy_rows(
            *("rnnc_read_states", _Read, (*given, found[i], firsts[i]), masks.steps.shape[-2:]),
            *((firsts[i][0].numel(), time, row), order),
            parts=max(order, 1),  # a word is of one direction
        )
    return found, firsts


def copy_rows(
    name: str,
    struct: type[ctypes.Structure],
    tensors: Sequence[Tensor],
    sizes: Sequence[int],
    lengths: Sequence[int],
    *flags: int,
    parts: int = 1,
) -> None:
    """Launch a kernel that copies rows of each step by words, the widest that fit all of them.

    Args:
        struct: of its arguments: addresses, T, B, lengths in words, flags, and the bytes of a word.
        tensors: whose addresses it gets. The first says what to copy, and the others are copied.
        sizes: T and B.
        lengths: of a row, then two strides, in elements.
        parts: of a row, each of whole words.
    """
    chooser, *copied = tensors
    size, index = copied[0].element_size(), chooser.device.index
    row, *strides = (length * size for length in lengths)
    places = [tensor.data_ptr() for tensor in copied]
    word = widest_word((*places, *strides, row // parts))
    numbers = row // word, *(stride // word for stride in strides)
    with on_device(chooser.device):
        grid = blocks_of(math.prod(sizes) * numbers[0], index)
        given = struct(chooser.data_ptr(), *places, *sizes, *numbers, *flags, word)
        mask_kernel(name, index)(grid, given)
