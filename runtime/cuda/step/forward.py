"""Forward of a single step of all layers: one kernel per layer, or products and a kernel."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch

from ...call.call import Call, Tensors
from ...call.tensors import Stepped
from ...targets.registry import TARGETS
from ..driver.streams import on_device
from ..products.multiply import Many
from .ready import StepReady, packed_places, step_ready, weights_by_gate


class Products:
    """Products that layers' kernels read, at the address `to`: those of x, then those of states."""

    def __init__(self, ready: StepReady, to: int) -> None:
        self._ready, self._x_products = ready, to
        plane = ready.batch * ready.heads * ready.dim * ready.real.itemsize
        # None is behind the last: an address that no tensor holds keeps a call from being recorded.
        self._h_products = to + plane * ready.counts.inputs if ready.pairs else 0
        self._h_bytes = plane * ready.pairs
        self._ends: list[torch.cuda.Event] = []

    def of_layer(
        self, layer: int, given: tuple[int, int, int, int], before: Sequence[int]
    ) -> tuple[int, int]:
        """Multiply for a layer; return the addresses of the products of x and of states."""
        ready, (x, size, W, R) = self._ready, given
        if inputs := ready.counts.inputs * ready.heads * ready.dim:
            to = (self._x_products, inputs)
            ready.gemm.forward(ready.batch, size, inputs, (x, size), (W, size), to)
        if not self._ends:
            self._with_states(R, before, self._h_products)
            return self._x_products, self._h_products
        torch.cuda.current_stream().wait_event(self._ends[layer])
        return self._x_products, self._h_products + layer * self._h_bytes

    @contextmanager
    def beside(
        self, device: torch.device, before: Sequence[int], weights: Sequence[int]
    ) -> Iterator[None]:
        """Multiply the states of all layers, each with room of its own, in a stream beside."""
        ready = self._ready
        stream, side = torch.cuda.current_stream(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(stream)
        plane = ready.batch * ready.heads * ready.dim * ready.dtype.itemsize
        with torch.cuda.stream(side):
            for layer, R in enumerate(weights[1 :: 4 + ready.counts.params]):
                states = [place + layer * plane for place in before]
                self._with_states(R, states, self._h_products + layer * self._h_bytes)
                end = torch.cuda.Event()  # type: ignore[no-untyped-call]
                end.record(side)
                self._ends.append(end)
        yield
        stream.wait_stream(side)

    def _with_states(self, R: int, before: Sequence[int], to: int) -> None:
        """Multiply a layer's states with R: all matrices of a state at once, or all heads."""
        ready, gemm = self._ready, self._ready.gemm
        batch, heads, dim = ready.batch, ready.heads, ready.dim
        hidden, width, real = heads * dim, ready.dtype.itemsize, ready.real.itemsize
        many = None if heads == 1 else Many(heads, dim, dim * dim, dim)
        for first, count, state in ready.products:
            a, b = (before[state], hidden), (R + first * hidden * dim * width, dim)
            result = to + first * hidden * real, ready.pairs * hidden
            gemm.forward(batch, dim, count * dim, a, b, result, many=many)


def forward_step(call: Call, tensors: Tensors, to: Stepped | None = None) -> Stepped:
    """Run all layers over one step on torch's current stream; `to` has tensors for the results."""
    x, states, weights = tensors.x, tensors.states, call.flat_weights(tensors.weights)
    if call.heads > 1:
        weights = weights_by_gate(call, weights)
    layer_call, device = call.directions[0], x.device
    *_, batch, size = x.shape
    hidden = call.heads * call.dim
    sizes = batch, size, call.heads, call.dim
    ready = step_ready(layer_call, "forward", *sizes, x.dtype, device.index)
    if not states:
        shape = (call.layers, batch, hidden)
        states = TARGETS[call.target].initial_states(x, call.initial_values, shape)
    kept, (source, *places) = packed_places((x, *states, *weights))
    before, own = places[: len(states)], places[len(states) :]
    if to is None:
        saved = None
        if layer_call.for_backward:
            item = (call.layers, batch, call.heads, call.dim, ready.counts.saved)
            saved = x.new_empty(item)
        last = tuple([torch.empty_like(state) for state in kept[1 : 1 + len(states)]])
        to = Stepped(x.new_empty(*x.shape[:-1], hidden), last, saved)
    if batch:
        with on_device(device):
            run = _run if ready.plan.multiplies else _run_with_products
            run(ready, Places((source, size), before, own), to)
        del kept  # what is freed now goes to whoever runs later in this stream
    return to


class Places(NamedTuple):
    """Addresses of what a step reads: of x, with its features, states and weights (0 for none)."""

    x: tuple[int, int]
    before: list[int]
    weights: Sequence[int]


def _run_with_products(ready: StepReady, places: Places, to: Stepped) -> None:
    counts = ready.counts
    # In a graph, products of states before the step wait for nothing: they run beside the others.
    beside = ready.pairs > 0 and torch.cuda.is_current_stream_capturing()
    parts = counts.inputs + ready.pairs * (to.last[0].shape[0] if beside else 1)
    # Freed before the kernels have run, they go to whoever runs later in the same stream.
    results = to.output.new_empty(ready.batch * parts * ready.heads * ready.dim, dtype=ready.real)
    products = Products(ready, results.data_ptr())
    _, before, weights = places
    with products.beside(to.output.device, before, weights) if beside else nullcontext():
        _run(ready, places, to, products)


def _run(ready: StepReady, places: Places, to: Stepped, products: Products | None = None) -> None:
    """Launch all layers. Kernels multiply if `products` is None."""
    (source, size), before, weights = places
    batch, heads, dim, launcher = ready.batch, ready.heads, ready.dim, ready.launcher
    plane = batch * heads * dim * ready.dtype.itemsize  # bytes of a state of one layer
    after = [s.data_ptr() for s in to.last]
    saved, saved_bytes = 0, 0
    if to.saved is not None:
        saved, saved_bytes = to.saved.data_ptr(), plane * ready.counts.saved
    count = 4 + ready.counts.params
    output, top = to.output.data_ptr(), len(weights) - count
    x_products = h_products = 0
    for first in range(0, len(weights), count):
        W, R, b, R_diag, *params = weights[first : first + count]
        if products is not None:
            x_products, h_products = products.of_layer(first // count, (source, size, W, R), before)
        values = [
            *(batch, heads, dim, size, source, W, R, x_products, h_products, R_diag, b),
            *(params or (0,)),
            *before,
            *after,
            *(output if first == top else 0, saved),
        ]
        arguments = launcher.arguments.from_buffer(array("q", values))
        launcher.run(arguments, None, to.output, 1)
        if first == top:
            break
        source, size = after[0], heads * dim
        before, after = [s + plane for s in before], [s + plane for s in after]
        saved += saved_bytes
