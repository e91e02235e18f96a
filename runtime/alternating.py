"""Alternating plans: a product and a pointwise map each step, in CUDA graphs."""

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
from .alternating_library import LibraryProduct
from .alternating_own import KernelProduct
from .cuda_arguments import (
    backward_arguments,
    begin_struct,
    forward_arguments,
    pointer,
    pointers,
    step_struct,
    work_struct,
)
from .launch import load_kernel
from .overlapped import launch_overlapping, overlap_possible
from .precision import tf32_allowed

# A graph of so many chunks where the length allows: what lies between two graphs, some us, counts
# less there.
_LONG = 8


class Work:
    """The buffers of one direction at one size, and the graphs of chunks of steps over them.

    Args:
        cell: the cell.
        plan: its plan.
        like: gives dtype and device.
        sizes: B, N and D.
        forward: the direction.
    """

    def __init__(
        self,
        cell: CellSpec,
        plan: AlternatingPlan,
        like: Tensor,
        sizes: tuple[int, int, int],
        forward: bool,
    ) -> None:
        layout = layout_of(cell)
        self._plan, self._forward = plan, forward
        self._kernels = {
            name: load_kernel(cell, plan, name, like.device.index) for name in plan.kernel_names
        }
        # A block an item a thread: of the step itself, where the library multiplies.
        self._grid = (math.ceil(math.prod(sizes) / plan.threads), 1, 1)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.lock = threading.Lock()
        real = torch.float64 if like.dtype == torch.float64 else torch.float32

        def new(*size: int, dtype: torch.dtype = real) -> Tensor:
            return torch.empty(size, dtype=dtype, device=like.device)

        self._product: LibraryProduct | KernelProduct
        if plan.own is None:
            self._product = LibraryProduct(layout, new, like.dtype, sizes, forward)
            self._step_grid = self._grid
        else:
            self._product = KernelProduct(layout, plan.own, new, like.dtype, sizes, forward)
            self._step_grid = self._product.grid
        self._overlapped = bool(plan.own and plan.own.overlapped and overlap_possible())
        counts = (len(layout.states), len(layout.params))
        arguments = (forward_arguments if forward else backward_arguments)(*counts)
        sums = len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
        self._arguments = new(ctypes.sizeof(arguments), dtype=torch.uint8)
        self._first_step = new(1, dtype=torch.int32)
        batch, heads, dim = sizes
        self._states = [new(batch, heads, dim) for _ in layout.states]
        self._sums = new(0 if forward else sums, batch, heads, dim)
        work = work_struct(len(layout.states), len(layout.sources))
        self._work = work(
            *sizes,
            pointer(self._arguments),
            pointer(self._first_step),
            pointers(self._states),
            pointers(self._product.factors),
            pointers(self._product.operands),
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
        if R is not None:
            self._product.take(R)
        # A graph that is being captured takes the launches one by one.
        graphs: list[torch.cuda.CUDAGraph] = []
        if not torch.cuda.is_current_stream_capturing():
            for length in (_LONG * self._plan.chunk, self._plan.chunk):
                count, steps = divmod(steps, length)
                graphs += [self._captured(length)] * count if count else []
        direction = "forward" if self._forward else "backward"
        begin = self._begin(arguments, self._work)
        self._kernels[f"rnnc_{direction}_begin"](self._grid, begin)
        for graph in graphs:
            graph.replay()
        for number in range(steps):
            self._one(number)
        if not self._forward:
            self._kernels["rnnc_backward_end"](self._step_grid, self._step(self._work, 0))

    def _one(self, number: int) -> None:
        """A step: the product of the states before it, or of the gradients of the gates of it."""
        if self._forward:
            self._product.multiply()
        kernel = self._kernels["rnnc_forward_step" if self._forward else "rnnc_backward_step"]
        step = self._step(self._work, number)
        # The first reads what a kernel wrote that knows of no overlap.
        if number and self._overlapped:
            launch_overlapping(kernel, self._step_grid, step)
        else:
            kernel(self._step_grid, step)
        if not self._forward:
            self._product.multiply()

    def _captured(self, length: int) -> torch.cuda.CUDAGraph:
        """The graph of that many steps, captured on first use."""
        if length not in self._graphs:
            # A call of no steps: the step that is tried below shall write nothing.
            self._arguments.zero_()
            self._first_step.zero_()
            current = torch.cuda.current_stream()
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(current)
            with torch.cuda.stream(side):
                # Once outside of it: the library's first product allocates.
                self._one(0)
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                for number in range(length):
                    self._one(number)
                advance = self._step(self._work, length)
                self._kernels["rnnc_advance"]((1, 1, 1), advance)
                graph.capture_end()
            current.wait_stream(side)
            self._graphs[length] = graph
        return self._graphs[length]


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
    return Work(cell, plan, like, sizes, forward)


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
    steps, *rest = sizes
    batch, heads, dim = rest
    if torch.cuda.is_current_stream_capturing():
        # Whoever captures owns the memory: these buffers are as temporary as any of its tensors.
        Work(cell, plan, like, (batch, heads, dim), forward).run(arguments, steps, R)
        return
    # Buffers belong to a stream, whose order keeps two calls apart.
    stream = torch.cuda.current_stream().cuda_stream
    tf32 = tf32_allowed(like.dtype)
    make: Callable[..., Work] = _work
    key = (like.dtype, like.device.index, (batch, heads, dim), forward, stream, tf32)
    work = make(cell, plan, *key)
    with work.lock:
        work.run(arguments, steps, R)
