"""A `PackedSequence` as the input of a module of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import PackedSequence

from ..check.plain import all_plain, is_watched
from ..targets import target_of
from .own import run_torch
from .packed_layers import Order
from .packed_node import run_node

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
        or not getattr(target_of(data.device), "takes_masks", False)
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
        order = Order.of(batch_sizes, data.device)
        y, last = run_node(settings, module._dropout, order, data, states, weights)
    if to_given is not None:
        last = tuple([state.index_select(1, to_given) for state in last])
    return PackedSequence(y, batch_sizes, to_sorted, to_given), module._hx_of(tuple(last))
