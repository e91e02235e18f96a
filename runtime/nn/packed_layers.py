"""All layers of a module over packed rows: products over the rows that there are, then kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..autograd.settings import Settings
from ..call import Choice
from ..layers_call import LayerWeights
from ..masks import Masks, masks_of
from ..scan import run_scan
from ..targets import target_of
from ..tensors import ScanInputs, States


class Order(NamedTuple):
    """Where the rows of a packed sequence lie.

    Attributes:
        batch_sizes: of each step, on the CPU.
        masks: of each direction of time.
        to_padded: (T * B,), the packed row of each step of each sequence; any row for padding.
        to_packed: (total,), the inverse.
    """

    batch_sizes: Tensor
    masks: tuple[Masks | None, Masks | None]
    to_padded: Tensor
    to_packed: Tensor

    @classmethod
    def of(cls, batch_sizes: Tensor, device: torch.device) -> Order:
        """The order of a packed sequence.

        Args:
            batch_sizes: of each step.
            device: of the rows.
        """
        number = torch.arange(int(batch_sizes[0]))
        inside = number < batch_sizes.unsqueeze(1)
        first = batch_sizes.cumsum(0) - batch_sizes
        rows = torch.where(inside, first.unsqueeze(1) + number, 0).flatten()
        found = inside.sum(0), rows, inside.flatten().nonzero().flatten()
        lengths, *rows_of = [t.to(device, non_blocking=True) for t in found]
        sizes = len(number), len(batch_sizes)
        masks = [masks_of(lengths, None, None, sizes, device, reverse) for reverse in (False, True)]
        return cls(batch_sizes, (masks[0], masks[1]), *rows_of)


class _Rows(torch.autograd.Function):
    """Some rows of a tensor, whose gradient is gathered by the inverse: nothing is added.

    The gradients of padding are those of some row. The kernels ignore them.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.index, ctx.inverse = index, inverse
        return tensor.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0].index_select(0, ctx.inverse), None, None


def packed_layers(
    settings: Settings,
    order: Order,
    data: Tensor,
    states: Sequence[Tensor],
    parameters: Sequence[Tensor | None],
    masks: Sequence[Tensor],
    scale: float,
) -> tuple[Tensor, States]:
    """Run all layers by kernels, as operations that autograd follows once.

    Args:
        settings: of the module.
        order: of the rows.
        data: (total, input).
        states: before the first step, (layers * directions, B, hidden) each; empty for zeros.
        parameters: of the module.
        masks: of each dropout, (total, features).
        scale: by what a dropout multiplies the features that it keeps.

    Returns:
        The output of the last layer, (total, directions * hidden), and each state after the last
        step of each sequence.
    """
    weights = settings.form.weights(parameters, settings.layers * len(settings.choices))
    lasts: list[States] = []
    for layer in range(settings.layers):
        if layer and masks:
            data = data * masks[layer - 1] * scale
        outputs = []
        for choice in settings.choices:
            own = [state[len(lasts)] for state in states]
            y, last = _direction(settings, choice, order, data, own, weights[len(lasts)])
            outputs.append(y)
            lasts.append(last)
        data = torch.cat(outputs, 1) if settings.both else outputs[0]
    return data, tuple(torch.stack(each) for each in zip(*lasts, strict=True))


def _direction(
    settings: Settings,
    choice: Choice,
    order: Order,
    data: Tensor,
    states: Sequence[Tensor],
    weights: LayerWeights,
) -> tuple[Tensor, States]:
    """One direction of a layer: its output, (total, hidden), and its last states, (B, hidden)."""
    cell, heads, dim = settings.cell, settings.heads, settings.dim
    target, batch = target_of(data.device), int(order.batch_sizes[0])
    assert weights.W is not None
    # (total, N, D, Gx), whose rows lie as the kernels read them.
    rows = target.project(data.unsqueeze(1), weights.W)[0]
    straight = rows.is_contiguous()
    rows = rows if straight else rows.transpose(2, 3)
    padded = _Rows.apply(rows, order.to_padded, order.to_packed)  # type: ignore[no-untyped-call]
    padded = padded if straight else padded.transpose(2, 3)
    wx = padded.unflatten(0, (-1, batch)).transpose(0, 1)
    if states:
        first = [state.reshape(batch, heads, dim) for state in states]
    else:
        values = [state.init for state in cell.states]
        first = target.initial_states(wx, values, (batch, heads, dim))
    masks = order.masks[choice.reverse is True]
    inputs = ScanInputs(wx, weights.R, weights.b, first, weights.R_diag, weights.params, masks)
    wanted = (True, *(False,) * (len(first) - 1))
    over_time, last = run_scan(cell, inputs, wanted, settings.backend, choice)
    steps = over_time[0].transpose(0, 1).reshape(-1, heads * dim)
    y = _Rows.apply(steps, order.to_packed, order.to_padded)  # type: ignore[no-untyped-call]
    return y, tuple([state.reshape(batch, heads * dim) for state in last])
