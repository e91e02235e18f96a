"""Lengths and resets of a module's call, as the caller gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .layer_call import fill_of
from .plain import values_visible


class RaggedKind(NamedTuple):
    """Tensors of `Ragged` that a call has; `values` counts the states with reset values."""

    lengths: bool
    reset: bool
    values: int
    packed: bool = False
    placed: bool = False

    @property
    def tensors(self) -> int:
        """Number of tensors that there are."""
        return self.lengths + self.reset + self.values + self.packed + 2 * self.placed

    def named(self, tensors: Sequence[Any]) -> Ragged:
        """Return the tensors that `Ragged.tensors` gave, by their names."""
        place = self.lengths + self.reset
        return Ragged(
            tensors[0] if self.lengths else None,
            tensors[place - 1] if self.reset else None,
            tuple(tensors[place : place + self.values]) if self.values else None,
            tensors[-1] if self.packed else None,
            Places(*tensors[-2:]) if self.placed else None,
        )


class Ragged(NamedTuple):
    """Lengths and resets of a module's call, for all layers and directions.

    Attributes:
        lengths: (B,) of whole numbers; None where all rows run all steps.
        reset: (T, B) of bool; None for none.
        reset_to: the values of each state after a reset, (layers * directions, hidden),
            (layers * directions, B, hidden) or (layers * directions, T, B, hidden); None for each
            state's `init`.
        starts: of packed rows of a module, as in `TorchPacking`; None where there are none.
        places: of packed rows of a call that takes wx; None where there are none.
        fill: as in `Choice`, of rows that are not packed.
    """

    lengths: Tensor | None
    reset: Tensor | None
    reset_to: Sequence[Tensor] | None
    starts: Tensor | None = None
    places: Places | None = None
    fill: float = 1.0

    @property
    def kind(self) -> RaggedKind:
        """Kind of the call: the tensors that it has."""
        values = 0 if self.reset_to is None else len(self.reset_to)
        given = self.lengths is not None, self.reset is not None
        return RaggedKind(*given, values, self.starts is not None, self.places is not None)

    def tensors(self) -> list[Tensor]:
        """Return the tensors that there are, in order; `RaggedKind.named` is the inverse."""
        found = [tensor for tensor in (self.lengths, self.reset) if tensor is not None]
        packed = [] if self.starts is None else [self.starts]
        return [*found, *(self.reset_to or ()), *packed, *(self.places or ())]

    def on(self, x: Tensor, fills: bool = True) -> Ragged:
        """Return the same with lengths of int64 on the device of x; nothing waits for it.

        Where only the host saw them, `fill` says how many steps run, if it `fills`. x is
        (T, B, input), or (total, input) of packed rows.
        """
        lengths, fill = self.lengths, self.fill
        if lengths is None or (lengths.dtype == torch.int64 and lengths.device == x.device):
            return self
        fills = fills and self.starts is None
        if fills and _host_alone_sees(lengths, x.device) and values_visible(lengths):
            fill = fill_of(int(lengths.sum()), *x.shape[:2])
        lengths = lengths.to(x.device, torch.int64, non_blocking=True)
        return self._replace(lengths=lengths, fill=fill)

    def cleaned(self, x: Tensor) -> Tensor:
        """Return x, (T, B, input), with zeros where a row runs no step, for products."""
        if self.lengths is None:
            return x
        time = torch.arange(len(x), device=x.device).unsqueeze(1)
        runs = time < self.lengths.to(x.device, non_blocking=True)
        return torch.where(runs.unsqueeze(2), x, 0.0)

    def selected(self, states: Sequence[Tensor], inits: Sequence[float]) -> list[Tensor]:
        """Return the states before a single step: those after the reset, where there is one.

        `states` are (layers, B, hidden) each, or (layers, hidden) of one sequence; `inits` has the
        initial value of each.
        """
        if self.reset is None:
            return list(states)
        where, found = self.reset.unsqueeze(-1), []
        for i, state in enumerate(states):
            value: Tensor | float = inits[i]
            if self.reset_to is not None:
                own = self.reset_to[i]
                value = own.unsqueeze(1) if own.ndim < state.ndim else own
            found.append(torch.where(where, value, state))
        return found


def _host_alone_sees(lengths: Tensor, device: torch.device) -> bool:
    """Return True if the host can count their steps without a wait, and the call runs elsewhere."""
    return lengths.device.type == "cpu" != device.type


def by_heads(value: Tensor, heads: int, dim: int) -> Tensor:
    """Return reset values (…, hidden) of a direction as `Masks` has them: (…, N, D), rows first."""
    found = value.reshape(*value.shape[:-1], heads, dim)
    return found.transpose(0, 1) if found.ndim == 4 else found


def as_of_one_layer(value: Tensor) -> Tensor:
    """Return reset values of `rnnc.scan` as `Ragged` has them; `by_heads` is the inverse."""
    found = value.flatten(-2).unsqueeze(0)
    return found.transpose(1, 2) if found.ndim == 4 else found


class Places(NamedTuple):
    """Places of B sequences of `total` steps together, the longest of T steps.

    Copies are `index_select`, which modes and autograd follow. Both directions are gathers, so a
    backward that has them needs no scatter.

    Attributes:
        padded: (T, B), the packed row of each padded one; in padding that of any sequence.
        packed: (total,), the padded row of each packed one, of T * B.
    """

    padded: Tensor
    packed: Tensor

    def pad(self, rows: Tensor) -> Tensor:
        """Return rows (total, …) as (T, B, …); their padding holds anything."""
        found = rows.index_select(0, self.padded.flatten())
        return found.view(*self.padded.shape, *rows.shape[1:])

    def pack(self, rows: Tensor) -> Tensor:
        """Return rows (T, B, …) as (total, …); their padding is not read."""
        return rows.flatten(0, 1).index_select(0, self.packed)


def places_of(starts: Tensor, total: int, steps: int) -> tuple[Tensor, Places]:
    """Return the length of each sequence, and places, from B + 1 starts; wrong ones are clamped."""
    starts = starts.long().clamp(0, total)
    begin, end = starts[:-1], starts[1:].contiguous()
    in_time = torch.arange(steps, device=starts.device).unsqueeze(1)
    padded = (begin + in_time).clamp(0, max(total - 1, 0))
    step = torch.arange(total, device=starts.device)
    row = torch.searchsorted(end, step, right=True).clamp(0, max(len(end) - 1, 0))
    time = (step - begin[row]).clamp(0, max(steps - 1, 0))
    return (end - begin).clamp(0, steps), Places(padded, time * len(begin) + row)
