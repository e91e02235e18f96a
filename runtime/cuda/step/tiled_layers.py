"""Backward of a step whose kernels multiply by matrix instructions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .backward_layers import BackwardLayers


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
            d_inputs = like.new_empty(batch, counts.inputs * hidden)
            to_inputs = d_inputs.data_ptr()
            if not ready.one_gradient:
                d_pairs = like.new_empty(batch, ready.pairs * hidden)
                to_pairs = d_pairs.data_ptr()
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
        arguments, launcher = self.arguments(*values), ready.launcher
        grid = ready.weights_grid(features, d_W is not None or d_R is not None)
        launcher.run_weights(arguments, grid)
        if lower or sources:
            grid = ready.inputs_grid(features if lower else 0, len(sources))
            launcher.run_inputs(arguments, grid)
        self.d_output, self.d_y = d_x, 0
        return [d_W, d_R, *self._given(own[2:], sums)]

    def _given(self, own: Sequence[int], sums: Tensor | None) -> Sequence[Tensor | None]:
        """Return the gradients of bias, diagonal weights and params, where there are any."""
        if sums is None:
            return [None] * len(own)
        _, params, diagonal = self.ready.counts.sums
        if not params and not diagonal:
            return [sums if own[0] else None, *[None] * (len(own) - 1)]
        return self.sums_apart(own, sums)


def _place(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
