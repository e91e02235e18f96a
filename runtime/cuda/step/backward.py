"""The backward of a single step of all layers: a pointwise kernel per layer, and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...tensors import Stepped
from ..driver.gemm import Gemm, Many, gemm_of
from ..launch import on_device
from .ready import StepReady, packed_places, step_ready

if TYPE_CHECKING:
    from ...autograd.stack import Stack


def backward_step(
    stack: Stack,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    stepped: Stepped,
    gradients: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of x, the caller's states and the flat weights of each layer.

    Args:
        stack: of the forward.
        x: of the forward, (B, input) or (1, B, input).
        states: of the forward.
        weights: of the forward, flat.
        stepped: its results.
        gradients: of the output and of each new state; None for zero.
        needs: which gradients are wanted.
    """
    sizes = (*x.shape[-2:], stack.heads, stack.dim)
    ready = step_ready(stack.calls[0], *sizes, x.dtype, x.device.index)
    if not ready.batch:
        return _zeros([x, *states, *weights], needs)
    given, shape = len(states), (stack.layers, ready.batch, stack.heads * stack.dim)
    first = states or stack.target.initial_states(x, stack.initial_values, shape)
    d_states: list[Tensor] = []
    if any(needs[1 : 1 + given]):
        d_states = [x.new_empty(shape, dtype=ready.real) for _ in first]
    with on_device(x.device):
        gemm = gemm_of(ready.device, ready.dtype, ready.call.tf32)
        layers = _Layers(ready, gemm, x, first, weights, d_states, stepped, gradients)
        d_weights: list[Tensor | None] = []
        count = len(weights) // stack.layers
        for layer in range(stack.layers - 1, -1, -1):
            start = 1 + given + layer * count
            d_weights[:0] = layers.run(layer, layer > 0 or needs[0], needs[start : start + count])
    d_x = None if layers.d_output is None else layers.d_output.view(x.shape)
    if d_x is None and needs[0]:
        d_x = torch.zeros_like(x)
    if x.dtype != ready.real:
        d_states = [d.to(x.dtype) for d in d_states]
    return [d_x, *(d_states or (None,) * given), *d_weights]


class _Layers:
    """The layers from the last to the first; each leaves the gradient of its input.

    Args:
        ready: the step.
        gemm: multiplies.
        x: the input.
        states: before the step.
        weights: of all layers, flat.
        d_states: where the gradients of the states go; empty if they are not wanted.
        stepped: the results of the forward.
        gradients: of the output and of each new state.
    """

    def __init__(
        self,
        ready: StepReady,
        gemm: Gemm,
        x: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        d_states: Sequence[Tensor],
        stepped: Stepped,
        gradients: Sequence[Tensor | None],
    ) -> None:
        self.ready, self.gemm, self.d_states = ready, gemm, d_states
        tensors = (x, *states, *weights, *gradients, stepped.saved, *stepped.last)
        # The copies live as long as this.
        self.kept, places = packed_places(tensors)
        count, end = len(states), 1 + len(states) + len(weights)
        self.x, self.last = self.kept[0], self.kept[-count:]
        self.from_x, self.before = places[0], places[1 : 1 + count]
        self.from_weights = places[1 + count : end]
        self.d_y, *self.d_after = places[end : end + 1 + count]
        self.saved, *self.after = places[-1 - count :]
        self.d_output: Tensor | None = None

    def run(self, layer: int, lower: bool, wanted: Sequence[bool]) -> list[Tensor | None]:
        """The gradients of the flat weights of a layer.

        Args:
            layer: its number.
            lower: whether the gradient of its input is wanted.
            wanted: which weights need a gradient.
        """
        ready, gemm, counts = self.ready, self.gemm, self.ready.counts
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        like, number = self.last[0], 4 + counts.params
        plane = layer * batch * hidden  # numbers of the states of the layers below
        offset = plane * ready.dtype.itemsize
        inputs, pairs = counts.inputs * hidden, ready.pairs * hidden
        d_inputs = like.new_empty(batch, inputs)
        to_inputs = to_pairs = d_inputs.data_ptr()
        if not ready.one_gradient:
            d_pairs = like.new_empty(batch, pairs)
            to_pairs = d_pairs.data_ptr()
        sums, needs_sums = None, any(wanted[2:])
        if needs_sums and not ready.summed_inputs:
            sums = like.new_empty(batch, sum(counts.sums), heads, dim, dtype=ready.real)
        own = self.from_weights[layer * number : (layer + 1) * number]
        W, R, _, R_diag, *params = own
        before = [place + offset for place in self.before]
        d_before = [d.data_ptr() + plane * ready.real.itemsize for d in self.d_states]
        ready.backward(
            *(batch, heads, dim, R_diag),
            *(params or (0,)),
            *before,
            *(place + offset for place in self.after),
            self.saved + offset * counts.saved,
            self.d_y if self.d_output is None else self.d_output.data_ptr(),
            *(place and place + offset for place in self.d_after),
            *(to_inputs, 0 if ready.one_gradient else to_pairs),
            *(d_before or (0,) * counts.states),
            0 if sums is None else sums.data_ptr(),
        )
        self.d_output, self.d_y = None, 0
        x, features = self.from_x, self.x.shape[-1]
        if layer:
            x, features = self.last_of(layer - 1), hidden
        d_R = d_W = None
        if R and d_before:
            self._to_states(R, to_pairs, d_before)
        if R and wanted[1]:
            d_R = like.new_empty(ready.pairs, heads, dim, dim)
            self._to_matrices(d_R.data_ptr(), to_pairs, before)
        if W and lower:
            self.d_output = like.new_empty(batch, features)
            to = (self.d_output.data_ptr(), features)
            gemm.backward(batch, inputs, features, (to_inputs, inputs), (W, features), to)
        if W and wanted[0]:
            d_W = like.new_empty(counts.inputs, heads, dim, features)
            to = (d_W.data_ptr(), features)
            gemm.weights(inputs, batch, features, (to_inputs, inputs), (x, features), to)
        if not needs_sums:
            return [d_W, d_R, *[None] * (number - 2)]
        return [d_W, d_R, *self._sums(own[2:], d_inputs, sums)]

    def last_of(self, layer: int) -> int:
        """The address of a layer's first state after the step."""
        ready = self.ready
        plane = ready.batch * ready.heads * ready.dim * ready.dtype.itemsize
        return self.after[0] + layer * plane

    def _to_states(self, R: int, d_pairs: int, d_before: Sequence[int]) -> None:
        """Add the gradients of the matrices' gates, times R, to those of the states."""
        ready, gemm = self.ready, self.gemm
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        size, pairs = ready.dtype.itemsize, ready.pairs * hidden
        for first, count, state in ready.products:
            to = (d_before[state], hidden)
            # One product of all matrices, or one of all heads per matrix.
            numbers = [first] if heads == 1 else range(first, first + count)
            inner = count * dim if heads == 1 else dim
            many = None if heads == 1 else Many(heads, dim, dim * dim, dim)
            for number in numbers:
                a = (d_pairs + number * hidden * size, pairs)
                b = (R + number * hidden * dim * size, dim)
                gemm.backward(batch, inner, dim, a, b, to, many, sums=True, add=True)

    def _to_matrices(self, d_R: int, d_pairs: int, before: Sequence[int]) -> None:
        """The gradients of R: those of the matrices' gates, times the states before the step."""
        ready, gemm = self.ready, self.gemm
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        size, pairs = ready.dtype.itemsize, ready.pairs * hidden
        for first, count, state in ready.products:
            numbers = [first] if heads == 1 else range(first, first + count)
            rows = count * dim if heads == 1 else dim
            many = None if heads == 1 else Many(heads, dim, dim, dim * dim)
            for number in numbers:
                a = (d_pairs + number * hidden * size, pairs)
                to = (d_R + number * hidden * dim * size, dim)
                gemm.weights(rows, batch, dim, a, (before[state], hidden), to, many)

    def _sums(
        self, own: Sequence[int], d_inputs: Tensor, sums: Tensor | None
    ) -> list[Tensor | None]:
        """The gradients of the bias, the diagonal weights and the params: sums over the batch."""
        ready, counts = self.ready, self.ready.counts
        if sums is None:
            rows = d_inputs if ready.batch == 1 else d_inputs.sum(0)
            d_b = rows.view(counts.inputs, ready.heads, ready.dim)
            if len(counts.biases) < counts.inputs:
                d_b = d_b[: len(counts.biases)]
            return [d_b, *[None] * (len(own) - 1)]
        d_b, d_params, d_R_diag = torch.split(sums.sum(0).to(ready.dtype), counts.sums)
        found = (d_b, d_R_diag, *d_params.unbind(0))
        return [new if place else None for place, new in zip(own, found, strict=True)]


def _zeros(inputs: Sequence[Tensor | None], needs: Sequence[bool]) -> list[Tensor | None]:
    """The gradients of a batch without rows."""
    return [
        torch.zeros_like(tensor) if need and tensor is not None else None
        for tensor, need in zip(inputs, needs, strict=True)
    ]
