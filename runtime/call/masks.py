"""Steps of rows with lengths and resets: masks of kernels, states that backwards read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.layout import layout_of
from ...codegen.shape import Masked, Reverse
from .ragged import Ragged, by_heads

# A byte of `Masks.steps`. A step that is held does not run: the states stand still and outputs are
# zero. A step runs from the states after the step before it, from the reset values, or from the
# states that the caller passed; the last only where it is the first step of the row.
HOLD, RUN, RESTART, FIRST = range(4)


@dataclass(frozen=True, slots=True)
class Masks:
    """Lengths and resets of a call in one direction of time.

    Attributes:
        steps: (T, B) of uint8, contiguous: HOLD, RUN, RESTART or FIRST, by time, not by the order
            in which steps run. In the reverse direction the byte of t - 1 is RESTART where the
            caller resets at t. Where one call runs both directions of a layer: (2, T, B), of each.
        longest: (B,) of int32, the number of steps that each row runs, 0 to T; None where all rows
            run all steps.
        reset_to: the values of each state after a reset, (N, D), (B, N, D) or (B, T, N, D), which
            is read at the time of the byte: in the reverse direction it lacks its first step, but
            not where one call runs both directions. None for the cell's initial values.
        restarts: where `steps` is RESTART, in the form in which a target's kernels read it; None
            where it is not made yet.
        order: (2, B) of int32, the order in which the tiles of `restarts` have rows: the row at
            each place, the longest first, and the place of each row. None where both are the same.
    """

    steps: Tensor
    longest: Tensor | None
    reset_to: Sequence[Tensor] | None
    restarts: Tensor | None = None
    order: Tensor | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> Masks:
        """Return the same masks with each tensor of the reset values changed."""
        if self.reset_to is None:
            return self
        values = tuple([change(t) for t in self.reset_to])
        return replace(self, reset_to=values)

    @property
    def learned(self) -> bool:
        """True if a backward gives gradients of reset values: of all but stored states."""
        return self.reset_to is not None and any(t.ndim < 4 for t in self.reset_to)

    @property
    def kind(self) -> Masked:
        """Kind of the masks: `"stored"` if values after a reset differ between steps, else True."""
        stored = self.reset_to is not None and any(t.ndim == 4 for t in self.reset_to)
        return "stored" if stored else True


def masks_of(
    lengths: Tensor | None,
    reset: Tensor | None,
    sizes: tuple[int, int],
    device: torch.device,
    reverse: bool,
) -> Masks:
    """Return the masks of a call, by torch operations on its device, without a wait for it.

    `lengths` are (B,) of any integers, and are clamped to 0 and T. `reset` is (T, B) of bool, and
    `sizes` are B and T.
    """
    batch, steps = sizes
    time = torch.arange(steps, device=device).unsqueeze(1)
    longest = None
    end: Tensor | int = steps
    if lengths is not None:
        end = lengths.to(device, torch.int64, non_blocking=True).clamp(0, steps)
        longest = end.to(torch.int32)
    first = time == (end - 1 if reverse else 0)
    taken = torch.where(first, FIRST, RUN)
    if reset is not None:
        if reverse:
            # A reset at t is a boundary between t - 1 and t: the step t - 1 starts anew.
            later = reset[1:] & (time[1:] < end)
            reset = torch.cat([later, later.new_zeros(min(steps, 1), batch)])
        taken = torch.where(reset, RESTART, taken)
    if lengths is not None:
        taken = torch.where(time < end, taken, HOLD)
    return Masks(taken.to(torch.uint8).expand(steps, batch).contiguous(), longest, None)


def with_reset_values(masks: Masks, reset_to: Sequence[Tensor] | None, reverse: Reverse) -> Masks:
    """Return the same masks with reset values, (N, D), (B, N, D) or (B, T, N, D) each."""
    values = None if reset_to is None else tuple([_by_time(value, reverse) for value in reset_to])
    return replace(masks, reset_to=values)


def strides_of_reset_value(value: Tensor) -> tuple[int, int, int]:
    """Return the strides of time, batch and head in elements; 0 where a value does not vary."""
    strides = value.stride()
    if value.ndim == 4:
        return strides[1], strides[0], strides[2]
    return 0, strides[0] if value.ndim == 3 else 0, strides[-2]


def _by_time(value: Tensor, reverse: Reverse) -> Tensor:
    """Return reset values as `Masks` has them. No gradient passes stored states, which are data.

    The reverse direction restarts at t - 1 with what is stored at t.
    """
    if value.ndim < 4:
        return value
    value = value.detach()
    return value[:, 1:] if reverse is True else value


def sources_read(cell: CellSpec) -> list[int]:
    """Return the numbers of the states that products over all steps read, by R or R_diag."""
    layout = layout_of(cell)
    diagonal = (layout.diagonal_sources[row] for row in layout.diagonal_order)
    return [each.number for each in dict.fromkeys((*layout.sources.values, *diagonal))]


def read_states(
    cell: CellSpec,
    masks: Masks,
    states: Sequence[Tensor],
    initial_states: Sequence[Tensor],
    reverse: Reverse,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return states for products over all steps: at each step what the step that runs next reads.

    As without masks, a product multiplies rows of each step with the states after the step before
    it, and rows of the first step with the initial states. With these results it has the factors of
    a call with masks: the reset value where the state was reset, and zero where a step does not
    run.

    Args:
        states: after each step, (T, B, N, D); those that no recurrent weight reads may be empty.
        initial_states: before the first step, (B, N, D) each.

    Returns:
        The states, of which nobody reads the last that runs, and the initial states.
    """
    if reverse == "half":
        return _read_by_half(cell, masks, states, initial_states)
    found, firsts = list(states), list(initial_states)
    steps = len(masks.steps)
    # The steps that run later than the first, and the steps before each of them.
    first, later, before = 0, slice(1, None), slice(0, -1)
    if reverse:
        first, later, before = steps - 1, slice(0, -1), slice(1, None)
    how = masks.steps[:, :, None, None]
    for i in sources_read(cell) if steps else ():
        zero = states[i].new_zeros(())
        if masks.reset_to is None:
            value = values = states[i].new_full((), cell.states[i].init)
        else:
            value = values = masks.reset_to[i]
            if value.ndim == 4:
                in_time = value.transpose(0, 1)
                values = in_time[: steps - 1] if reverse else in_time[1:]
                value = in_time[first] if first < len(in_time) else zero
        initial = torch.where(how[first] == RESTART, value, initial_states[i])
        firsts[i] = torch.where(how[first] == HOLD, zero, initial)
        read = torch.empty_like(states[i])
        part = read[before]
        torch.where(how[later] == RUN, states[i][before], zero, out=part)
        # Else the first step of a row is the first of all.
        if reverse and masks.longest is not None:
            torch.where(how[later] == FIRST, initial_states[i], part, out=part)
        torch.where(how[later] == RESTART, values, part, out=part)
        found[i] = read
    return found, firsts


def _read_by_half(
    cell: CellSpec, masks: Masks, states: Sequence[Tensor], initial_states: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return `read_states` of a call of both directions of a layer."""
    found = []
    for number, reverse in enumerate((False, True)):

        def half(tensor: Tensor, number: int = number) -> Tensor:
            return tensor.chunk(2, -2)[number]

        values = None if masks.reset_to is None else [half(v) for v in masks.reset_to]
        own = with_reset_values(Masks(masks.steps[number], masks.longest, None), values, reverse)
        parts = [half(s) for s in states], [half(s) for s in initial_states]
        found.append(read_states(cell, own, *parts, reverse))
    (sequences, firsts), (later, later_firsts) = found
    pairs = zip(sequences, later, strict=True), zip(firsts, later_firsts, strict=True)
    read, read_firsts = ([torch.cat(pair, -2) for pair in each] for each in pairs)
    return read, read_firsts


class MadeMasks(NamedTuple):
    """Masks of all directions of a call.

    Attributes:
        steps: (directions, T, B) of uint8; of a direction as in `Masks`.
        restarts: of a direction as in `Masks`, where the target reads them; else None.
        longest: as in `Masks`.
        order: as in `Masks`; it belongs to `restarts`.
    """

    steps: Tensor
    restarts: Tensor | None
    longest: Tensor | None
    order: Tensor | None = None

    def at(
        self,
        index: int,
        reset_to: Sequence[Tensor] | None,
        sizes: tuple[int, int],
        reverse: Reverse,
    ) -> Masks:
        """Return the masks of a direction, by its number among all; `sizes` are heads and units."""
        steps, restarts = self.steps, self.restarts
        if reverse != "half":
            direction = index % len(steps)
            steps = steps[direction]
            restarts = None if restarts is None else restarts[direction]
        found = Masks(steps, self.longest, None, restarts, self.order)
        if reset_to is None:
            return found
        return with_reset_values(found, [by_heads(v[index], *sizes) for v in reset_to], reverse)


def masks_by_torch(
    ragged: Ragged, sizes: tuple[int, int], device: torch.device, reverses: Sequence[bool]
) -> MadeMasks:
    """Make the masks of a call by operators of torch; arguments are as in `Target.made_masks`."""
    own = [masks_of(ragged.lengths, ragged.reset, sizes, device, reverse) for reverse in reverses]
    return MadeMasks(torch.stack([masks.steps for masks in own]), None, own[0].longest)
