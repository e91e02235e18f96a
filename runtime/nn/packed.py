"""A `PackedSequence` as the input of a module of torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ..autograd.settings import Settings
from ..check.plain import all_plain, is_watched
from ..layers import plain_call, run_plain_call
from ..ragged.given import Ragged
from ..tensors import States
from .own import run_torch, torch_layers

if TYPE_CHECKING:
    from .sequences import Sequences


def run_packed(module: Sequences, input: PackedSequence, hx: Any) -> Any:
    """Run all layers over sequences of several lengths.

    Args:
        module: has the parameters.
        input: the sequences.
        hx: the states before the first step, in the caller's order of sequences.

    Returns:
        A `PackedSequence`, and the states after each sequence's last step, in the caller's order.
    """
    data, batch_sizes, to_sorted, to_given = input
    settings, weights = module._settings(), module._weights()
    states = module._states_of(hx)
    if settings is None or torch.compiler.is_compiling() or is_watched() or not len(batch_sizes):
        return run_torch(module, input, hx)
    rows = int(batch_sizes[0])
    present = [weight for weight in weights if weight is not None]
    if (
        data.ndim != 2
        or not module._fits(settings, data, (rows,), states, weights)
        or not all_plain([data, *(states or ()), *present])
        or not _in_order(batch_sizes, len(data))
    ):
        return run_torch(module, input, hx)
    if states is not None and to_sorted is not None:
        states = [state.index_select(1, to_sorted) for state in states]
    last: Any
    if int(batch_sizes[-1]) == rows:  # all sequences are as long as the first
        x = data.view(-1, rows, data.shape[1])
        y, last = module._scan(settings, x, states, weights)
        y = y.reshape(len(data), -1)
    else:
        dropout, ragged = module._dropout, _ragged(batch_sizes, data.device)
        _, call = module._calls.find(module, data, states, ragged) or (None, None)
        if call is None:
            call = plain_call(settings, dropout, data, tuple(states or ()), weights, ragged)
            if call is None:
                return run_torch(module, input, hx)
            module._calls.remember(module, data, states, settings, call)
        again = partial(_by_torch, settings, dropout, batch_sizes)
        y, last = run_plain_call(settings, dropout, call, again)
    if to_given is not None:
        last = tuple([state.index_select(1, to_given) for state in last])
    return PackedSequence(y, batch_sizes, to_sorted, to_given), module._hx_of(tuple(last))


def _ragged(batch_sizes: Tensor, device: torch.device) -> Ragged:
    """Where packed rows lie, and the steps of each sequence, on the device of the rows.

    Args:
        batch_sizes: of each step, on the CPU, never increasing.
        device: of the rows.
    """
    steps = len(batch_sizes)
    rows, place = int(batch_sizes[0]), steps + 1 + (steps + 1) % 2  # aligned for replays
    both = batch_sizes.new_zeros(place + rows)
    torch.cumsum(batch_sizes, 0, out=both[1 : steps + 1])
    # The steps with more sequences than the number of one: those that it runs.
    runs_no_more = torch.searchsorted(batch_sizes.flip(0), torch.arange(rows), right=True)
    torch.sub(steps, runs_no_more, out=both[place:])
    both = both.to(device, non_blocking=True)
    return Ragged(both[place:], None, None, both[: steps + 1])


def _in_order(batch_sizes: Tensor, total: int) -> bool:
    """Whether there are as many rows as they say, the longest sequence first."""
    falls = batch_sizes[:-1] >= batch_sizes[1:]
    return int(batch_sizes.sum()) == total and bool(falls.all())


def _by_torch(
    settings: Settings,
    dropout: float,
    batch_sizes: Tensor,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    masks: Sequence[Tensor],
    _: Ragged | None,
) -> tuple[Tensor, States]:
    """All layers over packed rows by torch's operations."""
    return torch_layers(settings, dropout, x, states, weights, masks, batch_sizes)
