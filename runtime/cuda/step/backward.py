"""The backward of a single step of all layers: a pointwise kernel per layer, and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...tensors import Stepped
from ..driver.cublas import workspace_bytes
from ..driver.gemm import Gemm, Many, gemm_of
from ..launch import on_device
from .ready import StepReady, address, packed, step_ready

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
        x: of the forward, (B, input).
        states: of the forward.
        weights: of the forward, flat.
        stepped: its results.
        gradients: of the output and of each new state; None for zero.
        needs: which gradients are wanted.
    """
    ready = step_ready(stack.calls[0], x.shape[0], stack.heads, stack.dim, x.dtype, x.device.index)
    shape = (stack.layers, ready.batch, stack.heads * stack.dim)
    given = len(states)
    first = [packed(s) for s in states] or stack.target.initial_states(
        x, stack.initial_values, shape
    )
    d_states = [x.new_empty(shape, dtype=ready.real) for _ in first]
    if not ready.batch:
        return _zeros([x, *states, *weights], needs)
    with on_device(x.device):
        index = ready.device
        gemm = gemm_of(index, ready.dtype, ready.call.tf32)
        workspace = torch.empty(workspace_bytes(index), dtype=torch.uint8, device=x.device)
        stream = torch._C._cuda_getCurrentRawStream(index)
        with gemm.on(stream, workspace.data_ptr(), workspace.nbytes):
            layers = _Layers(ready, gemm, packed(x), first, d_states, stepped, gradients)
            d_weights: list[Tensor | None] = []
            count = len(weights) // stack.layers
            for layer in range(stack.layers - 1, -1, -1):
                own = weights[layer * count : (layer + 1) * count]
                start = 1 + given + layer * count
                wanted = needs[start : start + count]
                lower = layer > 0 or needs[0]
                d_weights[:0] = layers.run(layer, own, lower, bool(given), wanted)
    d_x = layers.d_output
    if d_x is None and needs[0]:
        d_x = torch.zeros_like(x)
    given_states = [d.to(x.dtype) for d in d_states] if given else []
    return [d_x, *given_states, *d_weights]


class _Layers:
    """The layers from the last to the first; each leaves the gradient of its input.

    Args:
        ready: the step.
        gemm: multiplies.
        x: the input.
        states: before the step, without gaps.
        d_states: where their gradients go.
        stepped: the results of the forward.
        gradients: of the output and of each new state.
    """

    def __init__(
        self,
        ready: StepReady,
        gemm: Gemm,
        x: Tensor,
        states: Sequence[Tensor],
        d_states: Sequence[Tensor],
        stepped: Stepped,
        gradients: Sequence[Tensor | None],
    ) -> None:
        self.ready, self.gemm, self.x = ready, gemm, x
        self.states, self.d_states, self.stepped = states, d_states, stepped
        d_output, *d_after = [None if g is None else packed(g) for g in gradients]
        self.d_output, self.d_after = d_output, d_after
        self.plane = ready.batch * ready.heads * ready.dim  # numbers of a state of one layer

    def run(
        self,
        layer: int,
        own: Sequence[Tensor | None],
        lower: bool,
        initial: bool,
        wanted: Sequence[bool],
    ) -> list[Tensor | None]:
        """The gradients of the flat weights of a layer.

        Args:
            layer: its number.
            own: its weights.
            lower: whether the gradient of its input is wanted.
            initial: whether the gradients of the states before the step are.
            wanted: which weights need a gradient.
        """
        ready, gemm, counts = self.ready, self.gemm, self.ready.counts
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        size = self.x.dtype.itemsize
        offset = layer * self.plane
        inputs, pairs = counts.inputs * hidden, ready.pairs * hidden
        d_inputs = self.x.new_empty(batch, inputs)
        d_pairs = None if ready.one_gradient else self.x.new_empty(batch, pairs)
        needs_sums = any(wanted[2:])
        sums = None
        if needs_sums and not ready.summed_inputs:
            sums = self.x.new_empty(batch, sum(counts.sums), heads, dim, dtype=ready.real)
        W, R, b, R_diag, *params = [None if weight is None else packed(weight) for weight in own]
        before = [s.data_ptr() + offset * size for s in self.states]
        after = [s.data_ptr() + offset * size for s in self.stepped.last]
        saved = self.stepped.saved
        assert saved is not None
        ready.backward(
            *(batch, heads, dim, address(R_diag)),
            *(map(address, params) if params else (0,)),
            *before,
            *after,
            *(saved[layer].data_ptr(), address(self.d_output)),
            *(0 if d is None else d.data_ptr() + offset * size for d in self.d_after),
            *(d_inputs.data_ptr(), address(d_pairs)),
            *(d.data_ptr() + offset * ready.real.itemsize for d in self.d_states),
            address(sums),
        )
        d_pairs = d_inputs if d_pairs is None else d_pairs
        x = self.x if layer == 0 else self.stepped.last[0][layer - 1]
        d_R = d_W = self.d_output = None
        if R is not None:
            if initial:
                self._to_states(R, d_pairs.data_ptr(), offset)
            if wanted[1]:
                d_R = torch.empty_like(R)
                self._to_matrices(d_R.data_ptr(), d_pairs.data_ptr(), before)
        if W is not None:
            features = x.shape[1]
            rows = (d_inputs.data_ptr(), inputs)
            if lower:
                self.d_output = torch.empty_like(x)
                to = (self.d_output.data_ptr(), features)
                gemm.backward(batch, inputs, features, rows, (W.data_ptr(), features), to)
            if wanted[0]:
                d_W = torch.empty_like(W)
                to = (d_W.data_ptr(), features)
                gemm.weights(inputs, batch, features, rows, (x.data_ptr(), features), to)
        return [d_W, d_R, *self._sums((b, R_diag, *params), d_inputs, sums, needs_sums)]

    def _to_states(self, R: Tensor, d_pairs: int, offset: int) -> None:
        """Add the gradients of the matrices' gates, times R, to those of the states."""
        ready, gemm = self.ready, self.gemm
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        size, pairs = self.x.dtype.itemsize, ready.pairs * hidden
        for first, count, state in ready.products:
            address = self.d_states[state].data_ptr() + offset * ready.real.itemsize
            to = (address, hidden)
            # One product of all matrices, or one of all heads per matrix.
            numbers = [first] if heads == 1 else range(first, first + count)
            inner = count * dim if heads == 1 else dim
            many = None if heads == 1 else Many(heads, dim, dim * dim, dim)
            for number in numbers:
                a = (d_pairs + number * hidden * size, pairs)
                b = (R.data_ptr() + number * hidden * dim * size, dim)
                gemm.backward(batch, inner, dim, a, b, to, many, sums=True, add=True)

    def _to_matrices(self, d_R: int, d_pairs: int, before: Sequence[int]) -> None:
        """The gradients of R: those of the matrices' gates, times the states before the step."""
        ready, gemm = self.ready, self.gemm
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        size, pairs = self.x.dtype.itemsize, ready.pairs * hidden
        for first, count, state in ready.products:
            numbers = [first] if heads == 1 else range(first, first + count)
            rows = count * dim if heads == 1 else dim
            many = None if heads == 1 else Many(heads, dim, dim, dim * dim)
            for number in numbers:
                a = (d_pairs + number * hidden * size, pairs)
                to = (d_R + number * hidden * dim * size, dim)
                gemm.weights(rows, batch, dim, a, (before[state], hidden), to, many)

    def _sums(
        self, own: Sequence[Tensor | None], d_inputs: Tensor, sums: Tensor | None, wanted: bool
    ) -> list[Tensor | None]:
        """The gradients of the bias, the diagonal weights and the params: sums over the batch."""
        if not wanted:
            return [None] * len(own)
        ready, counts = self.ready, self.ready.counts
        if sums is None:
            shape = (ready.batch, counts.inputs, ready.heads, ready.dim)
            d_b = d_inputs.view(shape)[:, : len(counts.biases)].sum(0)
            return [d_b, *[None] * (len(own) - 1)]
        d_b, d_params, d_R_diag = torch.split(sums.sum(0).to(self.x.dtype), counts.sums)
        found = (d_b, d_R_diag, *d_params.unbind(0))
        return [None if old is None else new for old, new in zip(own, found, strict=True)]


def _zeros(inputs: Sequence[Tensor | None], needs: Sequence[bool]) -> list[Tensor | None]:
    """The gradients of a batch without rows."""
    return [
        torch.zeros_like(tensor) if need and tensor is not None else None
        for tensor, need in zip(inputs, needs, strict=True)
    ]
