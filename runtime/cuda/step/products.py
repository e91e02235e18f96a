"""Products of a single step by the library: x with W, and states with R, as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from ..driver.gemm import Many
from .ready import StepReady


class Products:
    """Products that layers' kernels read, at the address `to`: those of x, then those of states."""

    def __init__(self, ready: StepReady, to: int) -> None:
        self._ready, self._x_products = ready, to
        plane = ready.batch * ready.heads * ready.dim * ready.real.itemsize
        self._h_products = to + plane * ready.counts.inputs
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
        row = ready.pairs * hidden
        for first, count, state in ready.products:
            if heads == 1:
                matrix, result = R + first * dim * dim * width, to + first * dim * real
                a, b = (before[state], dim), (matrix, dim)
                gemm.forward(batch, dim, count * dim, a, b, (result, row))
                continue
            for number in range(first, first + count):
                matrix, result = R + number * hidden * dim * width, to + number * hidden * real
                each = Many(heads, dim, dim * dim, dim)
                a, b = (before[state], hidden), (matrix, dim)
                gemm.forward(batch, dim, dim, a, b, (result, row), many=each)
