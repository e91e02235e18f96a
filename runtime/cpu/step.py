"""A single step of all layers on the CPU: no tensor over time, and no view of one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..store.facts import counts_of
from ..tensors import Saved, Stepped
from .arguments import address, struct_of
from .compile import cpu_library
from .kernels import torch_multiplies
from .linear import linear, rows_of
from .plans import plan_of
from .products import recurrent_product
from .tasks import sizes_of

if TYPE_CHECKING:
    from ..autograd.stack import Stack


class CpuSteps:
    """Single steps of all layers, as part of a target.

    Attributes:
        steps_as_sequences: a step and a sequence of one step have the same products, pointwise maps
            and bits. So the step, which has fewer tensors, serves both.
    """

    steps_as_sequences = True

    def step(
        self,
        stack: Stack,
        x: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        to: Stepped | None = None,
    ) -> Stepped:
        """Run all layers over one step.

        Args:
            stack: the call; it drops no features.
            x: (B, input).
            states: before the step, (layers, B, hidden) each; empty for their initial values.
            weights: the `LayerWeights.flat` of each layer, one after the other.
            to: where the results go, without gaps; None for new tensors. They are not the states
                given.
        """
        call, (batch, _), heads, dim = stack.calls[0], x.shape, stack.heads, stack.dim
        counts, hidden = counts_of(call.cell), heads * dim
        if states:
            states = [state.contiguous() for state in states]
        else:
            shape, values = (stack.layers, batch, hidden), stack.initial_values
            each = {value: x.new_full(shape, value) for value in values}
            states = [each[value] for value in values]  # they are only read
        if to is None:
            saved = None
            if call.for_backward:
                saved = x.new_empty(stack.layers, batch, heads, counts.saved, dim)
            last = tuple([torch.empty_like(state) for state in states])
            to = Stepped(x.new_empty(batch, hidden), last, saved)
        if not batch:
            return to
        forward = cpu_library(call.cell, plan_of(x.dtype)).rnnc_forward
        width = x.element_size()
        plane = batch * hidden * width  # bytes of a state of one layer
        before, after = [s.data_ptr() for s in states], [s.data_ptr() for s in to.last]
        kept, kept_bytes = address(to.saved), plane * counts.saved
        count = 4 + counts.params
        row = counts.inputs * hidden
        for layer in range(stack.layers):
            if layer:
                x = to.last[0][layer - 1]
            # C gets the addresses of these tensors: they must live until the call returns.
            W, *others = weights[layer * count : (layer + 1) * count]
            R, b, R_diag = [None if t is None else t.contiguous() for t in others[:3]]
            params = torch.stack(others[3:]) if counts.params else None  # type: ignore[arg-type]
            wx = None if W is None else linear(x, rows_of(W))
            product, strides = None, (0, 0, 0)
            if R is not None and torch_multiplies(1, batch, R):
                own = [state[layer].view(batch, heads, dim) for state in states]
                product, strides = recurrent_product(call.cell, R, own)
            top = layer == stack.layers - 1
            arguments = struct_of(
                *sizes_of(1, batch, heads, dim, 0 if product is not None else counts.dense),
                *(0, row, counts.inputs * dim, 1, dim),  # strides of wx
                address(wx),
                address(R if product is None else None),
                address(product),
                *strides,
                address(R_diag),
                address(b),
                address(params),
                *before,
                *after,
                to.output.data_ptr() if top else 0,
                *[0] * (len(states) - 1),
                kept,
            )
            forward(ctypes.byref(arguments))
            before, after = [s + plane for s in before], [s + plane for s in after]
            if kept:
                kept += kept_bytes
        return to

    def step_backward(
        self,
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
            x: of the forward.
            states: of the forward.
            weights: of the forward.
            stepped: its results.
            gradients: of the output and of each new state; None for zero.
            needs: which gradients are wanted.
        """
        call, batch, (heads, dim) = stack.calls[0], x.shape[0], (stack.heads, stack.dim)
        plane, count = (batch, heads, dim), len(weights) // stack.layers
        first = states
        if not states:
            shape = (stack.layers, batch, heads * dim)
            first = stack.target.initial_states(x, stack.initial_values, shape)
        d_y, *d_lasts = gradients
        d_weights: list[Tensor | None] = []
        d_first: list[Sequence[Tensor]] = []
        assert stepped.saved is not None
        for layer in range(stack.layers - 1, -1, -1):
            W, R, b, R_diag, *params = weights[layer * count : (layer + 1) * count]
            read = Saved(
                None,
                R,
                None,
                [s[layer].view(plane) for s in first],
                R_diag,
                params,  # type: ignore[arg-type]
                [s[layer].view(1, *plane) for s in stepped.last],
                stepped.saved[layer : layer + 1],
            )
            over_time = [None if d_y is None else d_y.reshape(1, *plane)]
            over_time += [None] * (len(first) - 1)
            d_last = [None if d is None else d[layer].reshape(plane) for d in d_lasts]
            found = stack.target.backward(call, read, over_time, d_last, donated=False)
            below = stepped.last[0][layer - 1] if layer else x
            d_y = d_W = None
            if W is not None:
                wanted = bool(layer) or needs[0], needs[1 + len(states) + layer * count]
                d_y, d_W = stack.target.project_gradients(
                    found.d_wx, below.unsqueeze(0), W, wanted, False
                )
                d_y = None if d_y is None else d_y[0]
            elif layer or needs[0]:
                d_y = torch.zeros_like(below)
            given = found.given(read, b is not None)
            d_weights[:0] = [d_W, given.R, given.b, given.R_diag, *given.params]
            d_first.insert(0, found.d_initial_states)
        d_states: list[Tensor | None] = []
        if states:
            d_states = [
                torch.stack(list(each)).view(first[0].shape) for each in zip(*d_first, strict=True)
            ]
        return [d_y, *d_states, *d_weights]

    def capture(self, device: torch.device, runs: Sequence[Callable[[], object]]) -> None:
        """What replays each run: nothing, since a CPU has no graphs.

        Args:
            device: not used.
            runs: not used.
        """
