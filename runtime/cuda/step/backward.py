"""Backward of a single step: with products of the matrix library, or of the kernels themselves."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from ...call.call import Call, Tensors
from ...call.requests import StepBackward
from ...call.tensors import SomeTensors, Stepped
from ...targets.registry import TARGETS
from ..driver.streams import on_device
from ..products.multiply import Many
from .ready import StepReady, packed_places, step_ready, weights_by_gate


class BackwardLayers(ABC):
    """Layers from the last to the first; each leaves the gradient of its input."""

    def __init__(
        self,
        ready: StepReady,
        x: Tensor,
        states: Sequence[Tensor],
        weights: SomeTensors,
        d_states: Sequence[Tensor],
        stepped: Stepped,
        gradients: SomeTensors,
    ) -> None:
        self.ready, self.d_states = ready, d_states
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

    @abstractmethod
    def run(self, layer: int, lower: bool, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of a layer's weights; `lower` wants that of its input, too."""

    def weights_of(self, layer: int) -> Sequence[int]:
        """Return the addresses of a layer's flat weights."""
        number = 4 + self.ready.counts.params
        return self.from_weights[layer * number : (layer + 1) * number]

    def pointwise_values(
        self, layer: int, to_inputs: int, to_pairs: int, d_before: Sequence[int], sums: int
    ) -> list[int]:
        """Return the arguments of the kernel of the pointwise map, in their order.

        Args:
            to_inputs: the address of the gradients of gates with an input.
            to_pairs: of those of matrices; 0 where they are the same.
            d_before: of those of the states, without what passes through R; 0 for each not wanted.
            sums: of the sums over the batch; 0 where they are not wanted.
        """
        ready, counts = self.ready, self.ready.counts
        _, _, _, R_diag, *params = self.weights_of(layer)
        offset = self.plane_of(layer) * ready.dtype.itemsize
        return [
            *(ready.batch, ready.heads, ready.dim, R_diag),
            *(params or (0,)),
            *(place + offset for place in self.before),
            *(place + offset for place in self.after),
            self.saved + offset * counts.saved,
            self.d_y if self.d_output is None else self.d_output.data_ptr(),
            *(place and place + offset for place in self.d_after),
            *(to_inputs, to_pairs),
            *d_before,
            sums,
        ]

    def arguments(self, *values: int) -> ctypes.Structure:
        """Return the arguments of a kernel, by the values of all fields and array elements."""
        return self.ready.launcher.arguments.from_buffer(array("q", values))

    def input_of(self, layer: int) -> tuple[int, int]:
        """Return the address of a layer's input, and its features."""
        if not layer:
            return self.from_x, self.x.shape[-1]
        offset = self.plane_of(layer - 1) * self.ready.dtype.itemsize
        return self.after[0] + offset, self.ready.heads * self.ready.dim

    def new_gates(self) -> tuple[list[Tensor], int, int]:
        """Return new gradients of gates, those with an input first, and the addresses.

        That of matrices' gates is 0 where they are the same, in one order.
        """
        ready, like = self.ready, self.last[0]
        counts = [ready.counts.inputs] if ready.one_gradient else [ready.counts.inputs, ready.pairs]
        found = [like.new_empty(ready.batch, n * ready.heads * ready.dim) for n in counts]
        return found, found[0].data_ptr(), 0 if ready.one_gradient else found[1].data_ptr()

    def sums_apart(self, own: Sequence[int], sums: Tensor) -> list[Tensor | None]:
        """Return the gradients of what a layer has of bias, diagonal weights and params."""
        d_b, d_params, d_R_diag = torch.split(sums, self.ready.counts.sums)
        found = (d_b, d_R_diag, *d_params.unbind(0))
        return [new if place else None for place, new in zip(own, found, strict=True)]

    def plane_of(self, layer: int) -> int:
        """Return the count of a state's numbers in the layers below."""
        ready = self.ready
        return layer * ready.batch * ready.heads * ready.dim


class ProductLayers(BackwardLayers):
    """Layers of a pointwise kernel and products each."""

    def run(self, layer: int, lower: bool, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of the flat weights of a layer."""
        ready, gemm, counts = self.ready, self.ready.gemm, self.ready.counts
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        like, plane = self.last[0], self.plane_of(layer)
        inputs = counts.inputs * hidden
        d_gates, to_inputs, to_pairs = self.new_gates()
        sums, needs_sums = None, any(wanted[2:])
        if needs_sums and not ready.summed_inputs:
            sums = like.new_empty(batch, sum(counts.sums), heads, dim, dtype=ready.real)
        own = self.weights_of(layer)
        W, R, *_ = own
        d_before = [d.data_ptr() + plane * ready.real.itemsize for d in self.d_states]
        states = d_before or (0,) * counts.states
        values = self.pointwise_values(layer, to_inputs, to_pairs, states, _place(sums))
        arguments = self.arguments(*values, *(0,) * ready.only_tiled)
        ready.launcher.run(arguments, None, like, 1)
        self.d_output, self.d_y = None, 0
        x, features = self.input_of(layer)
        before = [place + plane * ready.dtype.itemsize for place in self.before]
        d_R = d_W = None
        if R and d_before:
            self._to_states(R, to_pairs or to_inputs, d_before)
        if R and wanted[1]:
            d_R = like.new_empty(ready.pairs, heads, dim, dim)
            self._to_matrices(d_R.data_ptr(), to_pairs or to_inputs, before)
        if W and lower:
            self.d_output = like.new_empty(batch, features)
            to = (self.d_output.data_ptr(), features)
            gemm.backward(batch, inputs, features, (to_inputs, inputs), (W, features), to)
        if W and wanted[0]:
            d_W = like.new_empty(counts.inputs, heads, dim, features)
            to = (d_W.data_ptr(), features)
            gemm.weights(inputs, batch, features, (to_inputs, inputs), (x, features), to)
        if not needs_sums:
            return [d_W, d_R, *[None] * (len(own) - 2)]
        return [d_W, d_R, *self._sums(own[2:], d_gates[0], sums)]

    def _to_states(self, R: int, d_pairs: int, d_before: Sequence[int]) -> None:
        """Add the gradients of the matrices' gates, times R, to those of the states."""
        ready, gemm = self.ready, self.ready.gemm
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        size, pairs = ready.dtype.itemsize, ready.pairs * hidden
        many = None if heads == 1 else Many(heads, dim, dim * dim, dim)
        for first, count, state in ready.products:
            to = (d_before[state], hidden)
            a = (d_pairs + first * hidden * size, pairs)
            b = (R + first * hidden * dim * size, dim)
            gemm.backward(batch, count * dim, dim, a, b, to, many=many, sums=True, add=True)

    def _to_matrices(self, d_R: int, d_pairs: int, before: Sequence[int]) -> None:
        """Compute the gradients of R: those of the matrices' gates, times the states before."""
        ready, gemm = self.ready, self.ready.gemm
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        size, pairs = ready.dtype.itemsize, ready.pairs * hidden
        many = None if heads == 1 else Many(heads, dim, dim, dim * dim)
        for first, count, state in ready.products:
            a = (d_pairs + first * hidden * size, pairs)
            to = (d_R + first * hidden * dim * size, dim)
            gemm.weights(count * dim, batch, dim, a, (before[state], hidden), to, many=many)

    def _sums(
        self, own: Sequence[int], d_inputs: Tensor, sums: Tensor | None
    ) -> list[Tensor | None]:
        """Return the gradients of bias, diagonal weights and params: sums over the batch."""
        ready, counts = self.ready, self.ready.counts
        if sums is None:
            rows = d_inputs if ready.batch == 1 else d_inputs.sum(0)
            d_b = rows.view(counts.inputs, ready.heads, ready.dim)
            if len(counts.biases) < counts.inputs:
                d_b = d_b[: len(counts.biases)]
            return [d_b, *[None] * (len(own) - 1)]
        return self.sums_apart(own, sums.sum(0).to(ready.dtype))


class TiledLayers(BackwardLayers):
    """Layers of two kernels each: for gradients of weights, and for those of inputs and states."""

    def run(self, layer: int, lower: bool, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of the flat weights of a layer."""
        ready, counts, own = self.ready, self.ready.counts, self.weights_of(layer)
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        like, plane, size = self.last[0], self.plane_of(layer), ready.dtype.itemsize
        x, features = self.input_of(layer)
        W, R, *_ = own
        sources = ready.sources if self.d_states else ()
        lower = lower and W != 0
        to_inputs = to_pairs = 0
        d_before = [0] * counts.states
        if lower or sources:
            _kept, to_inputs, to_pairs = self.new_gates()
        if sources:
            parts = like.new_empty(len(sources), batch, hidden, dtype=ready.real)
            for number, state in enumerate(sources):
                d_before[state] = parts.data_ptr() + number * batch * hidden * ready.real.itemsize
        d_x = d_W = d_R = sums = None
        if lower:
            d_x = like.new_empty(batch, features)
        if W and wanted[0]:
            d_W = like.new_empty(counts.inputs, heads, dim, features)
        if R and wanted[1]:
            d_R = like.new_empty(ready.pairs, heads, dim, dim)
        if any(wanted[2:]):
            sums = like.new_empty(sum(counts.sums), heads, dim)
        values = [
            *self.pointwise_values(layer, to_inputs, to_pairs, d_before, 0),
            *(features, x, W, R, *map(_place, (d_x, d_W, d_R, sums))),
            *([d.data_ptr() + plane * size for d in self.d_states] or (0,) * counts.states),
        ]
        arguments, tile = self.arguments(*values), ready.plan.gradient_tile
        assert tile is not None
        columns = [features] * (counts.inputs > 0) + [dim] * len(ready.sources)
        wanted_matrix = d_W is not None or d_R is not None
        of_weights, of_inputs = ready.launcher.kernels
        of_weights(tile.blocks(heads, dim, columns if wanted_matrix else ()), arguments)
        if lower or sources:
            size = features if lower else 0
            of_inputs(tile.input_blocks(batch, heads, dim, size, len(sources)), arguments)
        self.d_output, self.d_y = d_x, 0
        if sums is None:
            return [d_W, d_R, *[None] * (len(own) - 2)]
        return [d_W, d_R, *self.sums_apart(own[2:], sums)]


def _place(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def backward_step(call: Call, tensors: Tensors, backward: StepBackward) -> list[Tensor | None]:
    """Return the gradients of x, the caller's states and the flat weights of each layer."""
    x, states, weights = tensors.x, tensors.states, call.flat_weights(tensors.weights)
    stepped, gradients, needs = backward
    if not x.shape[-2]:
        return Tensors(x, states, weights).zeros(needs)
    if call.heads > 1:
        weights = weights_by_gate(call, weights)
    sizes = (*x.shape[-2:], call.heads, call.dim)
    ready = step_ready(call.directions[0], "backward", *sizes, x.dtype, x.device.index)
    given, shape = len(states), (call.layers, ready.batch, call.heads * call.dim)
    first = states or TARGETS[call.target].initial_states(x, call.initial_values, shape)
    tiled = ready.plan.gradient_tile is not None
    d_states: list[Tensor] = []
    if any(needs[1 : 1 + given]):
        kind = x.dtype if tiled else ready.real
        d_states = [x.new_empty(shape, dtype=kind) for _ in first]
    with on_device(x.device):
        make: type[BackwardLayers] = TiledLayers if tiled else ProductLayers
        layers = make(ready, x, first, weights, d_states, stepped, gradients)
        d_weights: list[Tensor | None] = []
        count = len(weights) // call.layers
        for layer in range(call.layers - 1, -1, -1):
            start = 1 + given + layer * count
            d_weights[:0] = layers.run(layer, layer > 0 or needs[0], needs[start : start + count])
    d_x = None if layers.d_output is None else layers.d_output.view(x.shape)
    if d_x is None and needs[0]:
        d_x = torch.zeros_like(x)
    if d_states and x.dtype != d_states[0].dtype:
        d_states = [d.to(x.dtype) for d in d_states]
    return [d_x, *(d_states or (None,) * given), *d_weights]
