"""A `PackedSequence` as the input of a module of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ..call.call import Tensors
from ..call.plain import all_plain, is_watched
from ..call.ragged import Ragged
from ..call.settings import Settings
from ..grad.node import run_ready
from ..run.route import direct_call
from .own import run_torch

if TYPE_CHECKING:
    from .sequences import Sequences


def run_packed(module: Sequences, input: PackedSequence, hx: Any) -> Any:
    """Run all layers over sequences of several lengths. States are in the caller's order."""
    data, batch_sizes, to_sorted, to_given = input
    states = module._states_of(hx)
    watched = torch.compiler.is_compiling() or is_watched()
    places = None if watched or data.ndim != 2 else _places(batch_sizes, len(data))
    if places is None:
        return run_torch(module, input, hx)
    rows, x, ragged = int(batch_sizes[0]), data, None
    if int(batch_sizes[-1]) == rows:  # all sequences are as long as the first
        x = data.view(-1, rows, data.shape[1])
    else:
        there = places.to(data.device, non_blocking=True)
        ragged = Ragged(there[-rows:], None, None, there[: len(batch_sizes) + 1])
    if states is not None:  # they are checked before they are sorted
        if _served(module, data, rows, states) is None:
            return run_torch(module, input, hx)
        if to_sorted is not None:
            states = [state.index_select(1, to_sorted) for state in states]
    kind = "sequence" if ragged is None else "packed"
    ready = module._known_calls.find_call(kind, module, x, states, ragged)
    if ready is None:
        served = states is not None  # as checked above
        settings = module._settings() if served else _served(module, data, rows, None)
        tensors = Tensors(x, tuple(states or ()), module._weights(), ragged)
        ready = None if settings is None else direct_call(settings, tensors)
        if ready is None:
            return run_torch(module, input, hx)
        module._known_calls.remember_call(kind, module, x, ready)
    last: Any
    (y,), last = run_ready(ready)
    if to_given is not None:
        last = tuple([state.index_select(1, to_given) for state in last])
    rows_of_y = y.reshape(len(data), -1)
    return PackedSequence(rows_of_y, *input[1:]), module._hx_of(tuple(last))


def _served(
    module: Sequences, data: Tensor, rows: int, states: Sequence[Any] | None
) -> Settings | None:
    """Return the settings of a call on ordered rows, with states in the caller's order.

    None where no kernels can take it.
    """
    settings, weights = module._settings(), module._weights()
    if settings is None or module.proj_size or 0 in data.shape:
        return None
    fits = module._fits(settings, data, (rows,), states, weights)
    return settings if fits and all_plain([data, *(states or ()), *weights]) else None


def _places(batch_sizes: Tensor, total: int) -> Tensor | None:
    """Return places and lengths of packed rows; None if the rows are not in order.

    The first row of each step and their number, (T + 1), come first. Then, aligned for replays,
    come the steps of each sequence, (rows of the first step).
    """
    steps = len(batch_sizes)
    if not steps or batch_sizes.dtype != torch.int64:
        return None
    if not bool((batch_sizes[:-1] >= batch_sizes[1:]).all()) or int(batch_sizes[-1]) < 1:
        return None
    rows, place = int(batch_sizes[0]), steps + 1 + (steps + 1) % 2
    found = batch_sizes.new_zeros(place + rows)
    torch.cumsum(batch_sizes, 0, out=found[1 : steps + 1])
    if int(found[steps]) != total:
        return None
    # The steps with more sequences than the number of one: those that it runs.
    numbers = torch.arange(0, -rows, -1, device=batch_sizes.device)
    torch.searchsorted(batch_sizes.neg(), numbers, out=found[place:])
    return found
