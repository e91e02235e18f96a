"""Alternating plans: a product by torch and a pointwise kernel each step, in CUDA graphs."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.alternating_plan import AlternatingPlan
from ..codegen.layout import layout_of
from .cuda_arguments import (
    backward_arguments,
    begin_struct,
    forward_arguments,
    pointer,
    pointers,
    step_struct,
    work_struct,
)
from .launch import Kernel, load_kernels


class Work:
    """The buffers of one direction at one size, and the graph of a chunk of steps over them.

    Args:
        cell: the cell.
        plan: its plan.
        like: gives dtype and device.
        batch: batch rows.
        heads: heads.
        dim: units of a head.
        forward: the direction.
    """

    def __init__(
        self,
        cell: CellSpec,
        plan: AlternatingPlan,
        like: Tensor,
        batch: int,
        heads: int,
        dim: int,
        forward: bool,
    ) -> None:
        layout = layout_of(cell)
        self._plan, self._layout, self._forward = plan, layout, forward
        self._kernels = load_kernels(cell, plan, like.device.index)
        self._grid = (math.ceil(batch * heads * dim / plan.threads), 1, 1)
        self._graph: torch.cuda.CUDAGraph | None = None
        self.lock = threading.Lock()
        real = torch.float64 if like.dtype == torch.float64 else torch.float32

        def new(*size: int, dtype: torch.dtype = real) -> Tensor:
            return torch.empty(size, dtype=dtype, device=like.device)

        counts = (len(layout.states), len(layout.params))
        arguments = (forward_arguments if forward else backward_arguments)(*counts)
        sums = len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
        self._arguments = new(ctypes.sizeof(arguments), dtype=torch.uint8)
        self._first_step = torch.zeros(1, dtype=torch.int32, device=like.device)
        self._states = [new(batch, heads, dim) for _ in layout.states]
        self._sums = new(0 if forward else sums, batch, heads, dim)
        # What the products of a source share: R as (N, D out, pairs, D in), a head a product. Or,
        # backwards, as (N, pairs, D out, D in) with a product a pair: K is long there, and a
        # product of one head alone would keep few multiprocessors busy.
        pairs_of = layout.source_pairs
        if forward:
            self._weights = [new(heads, dim, p, dim, dtype=like.dtype) for p in pairs_of]
            self._factors = [new(heads, batch, dim, dtype=like.dtype) for _ in pairs_of]
            self._products = [new(heads, batch, dim * p) for p in pairs_of]
        else:
            self._weights = [new(heads, p, dim, dim, dtype=like.dtype) for p in pairs_of]
            self._factors = [new(heads * p, batch, dim, dtype=like.dtype) for p in pairs_of]
            self._products = [new(heads * p, batch, dim) for p in pairs_of]
        for factors in self._factors:
            factors.zero_()  # so that the product that is captured is one of numbers
        work = work_struct(len(layout.states), len(layout.sources))
        self._work = work(
            *(batch, heads, dim),
            pointer(self._arguments),
            pointer(self._first_step),
            pointers(self._states),
            pointers(self._factors),
            pointers(self._products),
            pointer(self._sums),
        )
        self._begin = begin_struct(arguments, work)
        self._step = step_struct(work)

    def run(self, arguments: ctypes.Structure, steps: int, R: Tensor | None) -> None:
        """Run all steps of a call.

        Args:
            arguments: of the direction, as for a block.
            steps: how many.
            R: (Gr, N, D, D), where the cell has dense gates.
        """
        self._take(R)
        direction = "forward" if self._forward else "backward"
        begin = self._begin(arguments, self._work)
        self._kernels[f"rnnc_{direction}_begin"](self._grid, begin)
        done = 0
        # A graph that is being captured takes the launches one by one.
        if steps >= self._plan.chunk and not torch.cuda.is_current_stream_capturing():
            graph = self._captured()
            self._kernels[f"rnnc_{direction}_begin"](self._grid, begin)
            for _ in range(steps // self._plan.chunk):
                graph.replay()
            done = steps // self._plan.chunk * self._plan.chunk
        for number in range(steps - done):
            self._one(number)
        if not self._forward:
            self._launch("rnnc_backward_end", 0)

    def _take(self, R: Tensor | None) -> None:
        layout = self._layout
        for i, weights in enumerate(self._weights):
            assert R is not None
            first, pairs = layout.source_first_pair[i], layout.source_pairs[i]
            matrices = list(layout.pair_matrices[first : first + pairs])
            contiguous = matrices == list(range(matrices[0], matrices[0] + pairs))
            chosen = R[matrices[0] : matrices[0] + pairs] if contiguous else R[matrices]
            # (pairs, N, out, in) -> (N, out, pairs, in) or (N, pairs, out, in)
            weights.copy_(chosen.permute((1, 2, 0, 3) if self._forward else (1, 0, 2, 3)))

    def _one(self, number: int) -> None:
        """A step: the product of the states before it, or of the gradients of the gates of it."""
        if self._forward:
            for weights, state, product in zip(
                self._weights, self._factors, self._products, strict=True
            ):
                _multiply(state, weights.flatten(1, 2).transpose(1, 2), product)
        self._launch("rnnc_forward_step" if self._forward else "rnnc_backward_step", number)
        if not self._forward:
            for weights, d_gates, product in zip(
                self._weights, self._factors, self._products, strict=True
            ):
                _multiply(d_gates, weights.flatten(0, 1), product)

    def _launch(self, name: str, number: int) -> None:
        kernel: Kernel = self._kernels[name]
        kernel(self._grid, self._step(self._work, number))

    def _captured(self) -> torch.cuda.CUDAGraph:
        """The graph of a chunk of steps, captured on first use."""
        if self._graph is None:
            current = torch.cuda.current_stream()
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(current)
            with torch.cuda.stream(side):
                # Once outside of it: the library's first product allocates.
                self._one(0)
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                for number in range(self._plan.chunk):
                    self._one(number)
                self._launch("rnnc_advance", self._plan.chunk)
                graph.capture_end()
            current.wait_stream(side)
            self._graph = graph
        return self._graph


def _multiply(a: Tensor, b: Tensor, to: Tensor) -> None:
    """A product of each head, summed and left in `to`'s dtype."""
    if a.dtype == to.dtype:
        torch.bmm(a, b, out=to)
    else:
        torch.ops.aten.bmm.dtype_out(a, b, to.dtype, out=to)


@lru_cache(maxsize=16)
def _work(
    cell: CellSpec,
    plan: AlternatingPlan,
    dtype: torch.dtype,
    device: int,
    sizes: tuple[int, int, int],
    forward: bool,
    stream: int,
    tf32: bool,
) -> Work:
    like = torch.empty(0, dtype=dtype, device=f"cuda:{device}")
    return Work(cell, plan, like, *sizes, forward)


def run_alternating(
    cell: CellSpec,
    plan: AlternatingPlan,
    arguments: ctypes.Structure,
    R: Tensor | None,
    like: Tensor,
    sizes: tuple[int, int, int, int],
    forward: bool,
) -> None:
    """Run one direction of an alternating plan on torch's current stream.

    Args:
        cell: the cell.
        plan: its plan.
        arguments: of the direction, as for a block.
        R: (Gr, N, D, D), where the cell has dense gates.
        like: gives dtype and device.
        sizes: T, B, N and D.
        forward: the direction.
    """
    steps, batch, heads, dim = sizes
    if torch.cuda.is_current_stream_capturing():
        # Whoever captures owns the memory: these buffers are as temporary as any of its tensors.
        Work(cell, plan, like, batch, heads, dim, forward).run(arguments, steps, R)
        return
    # Buffers belong to a stream, whose order keeps two calls apart.
    stream = torch.cuda.current_stream().cuda_stream
    tf32 = torch.backends.cuda.matmul.allow_tf32
    make: Callable[..., Work] = _work
    key = (like.dtype, like.device.index, (batch, heads, dim), forward, stream, tf32)
    work = make(cell, plan, *key)
    with work.lock:
        work.run(arguments, steps, R)
