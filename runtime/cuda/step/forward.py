"""The forward of a single step of all layers: one kernel per layer, or products and a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...tensors import Stepped
from ..driver.gemm import Gemm, Many, gemm_of
from ..launch import on_device
from ..products import workspace_of
from .ready import StepReady, packed_places, step_ready

if TYPE_CHECKING:
    from ...autograd.stack import Stack


def forward_step(
    stack: Stack,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    to: Stepped | None = None,
) -> Stepped:
    """Run all layers over one step, on the tensors' device and torch's current stream.

    Args:
        stack: the call; it drops no features.
        x: (B, input).
        states: before the step, (layers, B, hidden) each; empty for their initial values.
        weights: the `LayerWeights.flat` of each layer, one after the other.
        to: where the results go, without gaps; None for new tensors. They are not the states given.
    """
    call, device = stack.calls[0], x.device
    batch, size = x.shape
    hidden = stack.heads * stack.dim
    ready = step_ready(call, batch, size, stack.heads, stack.dim, x.dtype, device.index)
    if not states:
        shape = (stack.layers, batch, hidden)
        states = stack.target.initial_states(x, stack.initial_values, shape)
    kept, (source, *places) = packed_places((x, *states, *weights))
    before, own = places[: len(states)], places[len(states) :]
    if to is None:
        saved = None
        if call.for_backward:
            item = (stack.layers, batch, stack.heads, stack.dim, ready.counts.saved)
            saved = x.new_empty(item)
        last = tuple([torch.empty_like(state) for state in kept[1 : 1 + len(states)]])
        to = Stepped(x.new_empty(batch, hidden), last, saved)
    if batch:
        with on_device(device):
            if ready.forward_plan.rows:
                _run(ready, None, source, size, before, own, to)
            else:
                _run_with_products(ready, source, size, before, own, to)
        del kept  # what is freed now goes to whoever runs later in this stream
    return to


def _run_with_products(
    ready: StepReady,
    source: int,
    size: int,
    before: list[int],
    weights: Sequence[int],
    to: Stepped,
) -> None:
    index = ready.device
    gemm = gemm_of(index, ready.dtype, ready.call.tf32)
    stream = torch._C._cuda_getCurrentRawStream(index)
    workspace = workspace_of(index, stream)
    # They may be freed before the kernels have run, likewise.
    count = ready.batch * (ready.counts.inputs + ready.pairs) * ready.heads * ready.dim
    products = to.output.new_empty(count, dtype=ready.real)
    with gemm.lock:
        gemm.at(stream, workspace.data_ptr(), workspace.nbytes)
        _run(ready, (gemm, products.data_ptr()), source, size, before, weights, to)


def _run(
    ready: StepReady,
    products: tuple[Gemm, int] | None,
    source: int,
    size: int,
    before: list[int],
    weights: Sequence[int],
    to: Stepped,
) -> None:
    """Launch all layers.

    Args:
        ready: the step.
        products: of the library, and the address of their results; None where the kernels multiply.
        source: the address of x.
        size: its features.
        before: the addresses of the states before the step.
        weights: the addresses of the weights, flat; 0 for each that there is not.
        to: where the results go.
    """
    batch, heads, dim, launch = ready.batch, ready.heads, ready.dim, ready.forward
    plane = batch * heads * dim * ready.dtype.itemsize  # bytes of a state of one layer
    after = [s.data_ptr() for s in to.last]
    saved, saved_bytes = 0, 0
    if to.saved is not None:
        saved, saved_bytes = to.saved.data_ptr(), plane * ready.counts.saved
    count = 4 + ready.counts.params
    output, top = to.output.data_ptr(), len(weights) - count
    x_products = h_products = 0
    if products is not None:
        gemm, x_products = products
        inputs = batch * ready.counts.inputs * heads * dim
        h_products = x_products + inputs * ready.real.itemsize
    for first in range(0, len(weights), count):
        W, R, b, R_diag, *params = weights[first : first + count]
        if products is not None:
            _multiply(ready, gemm, (source, size, W, R), before, x_products, h_products)
        launch(
            *(batch, heads, dim, size, source, W, R, x_products, h_products, R_diag, b),
            *(params or (0,)),
            *before,
            *after,
            *(output if first == top else 0, saved),
        )
        if first == top:
            break
        source, size = after[0], heads * dim
        before, after = [s + plane for s in before], [s + plane for s in after]
        saved += saved_bytes


def _multiply(
    ready: StepReady,
    gemm: Gemm,
    given: tuple[int, int, int, int],
    before: Sequence[int],
    x_products: int,
    h_products: int,
) -> None:
    """The products of a layer: x with W, and states with R, as they are stored.

    Args:
        ready: the step.
        gemm: multiplies.
        given: the addresses of x, W and R, and the features of x after the first.
        before: the addresses of the states.
        x_products: where the first product goes.
        h_products: where the others go.
    """
    x, size, W, R = given
    batch, heads, dim = ready.batch, ready.heads, ready.dim
    hidden, width, real = heads * dim, ready.dtype.itemsize, ready.real.itemsize
    if inputs := ready.counts.inputs * hidden:
        gemm.forward(batch, size, inputs, (x, size), (W, size), (x_products, inputs))
    row = ready.pairs * hidden
    for first, count, state in ready.products:
        if heads == 1:
            matrix, to = R + first * dim * dim * width, h_products + first * dim * real
            gemm.forward(batch, dim, count * dim, (before[state], dim), (matrix, dim), (to, row))
            continue
        for number in range(first, first + count):
            matrix, to = R + number * hidden * dim * width, h_products + number * hidden * real
            each = Many(heads, dim, dim * dim, dim)
            a, b = (before[state], hidden), (matrix, dim)
            gemm.forward(batch, dim, dim, a, b, (to, row), each)
