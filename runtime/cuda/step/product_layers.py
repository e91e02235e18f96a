"""Backward of a step whose products are the matrix library's."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..driver.gemm import Many
from .backward_layers import BackwardLayers


class ProductLayers(BackwardLayers):
    """Layers of a pointwise kernel and products each."""

    def run(self, layer: int, lower: bool, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of the flat weights of a layer."""
        ready, gemm, counts = self.ready, self.ready.gemm, self.ready.counts
        batch, heads, dim, hidden = ready.batch, ready.heads, ready.dim, ready.heads * ready.dim
        like, plane = self.last[0], self.plane_of(layer)
        inputs, pairs = counts.inputs * hidden, ready.pairs * hidden
        d_inputs = like.new_empty(batch, inputs)
        to_inputs = to_pairs = d_inputs.data_ptr()
        if not ready.one_gradient:
            d_pairs = like.new_empty(batch, pairs)
            to_pairs = d_pairs.data_ptr()
        sums, needs_sums = None, any(wanted[2:])
        if needs_sums and not ready.summed_inputs:
            sums = like.new_empty(batch, sum(counts.sums), heads, dim, dtype=ready.real)
        own = self.weights_of(layer)
        W, R, *_ = own
        d_before = [d.data_ptr() + plane * ready.real.itemsize for d in self.d_states]
        values = self.pointwise_values(
            layer,
            to_inputs,
            0 if ready.one_gradient else to_pairs,
            d_before or (0,) * counts.states,
            0 if sums is None else sums.data_ptr(),
        )
        arguments = self.arguments(*values, *(0,) * ready.only_tiled)
        ready.launcher.run(arguments, None, like, 1)
        self.d_output, self.d_y = None, 0
        x, features = self.input_of(layer)
        before = [place + plane * ready.dtype.itemsize for place in self.before]
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
            return [d_W, d_R, *[None] * (len(own) - 2)]
        return [d_W, d_R, *self._sums(own[2:], d_inputs, sums)]

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
