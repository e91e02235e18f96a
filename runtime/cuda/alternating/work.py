"""Buffers of one direction of an alternating plan at one size, and its graphs of steps."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.alternating.plan import AlternatingPlan
from ....codegen.cuda.alternating.staged_plan import StagedAlternatingPlan
from ...call.facts import facts_of
from ...process.caller import warn
from ..arguments import (
    arguments_of,
    init_args_struct,
    pointer,
    pointers,
    step_args_struct,
    workspace_struct,
)
from ..driver.blocks import configured
from ..driver.cublas import workspace_bytes
from ..driver.driver import check, keeping
from ..driver.graphs import Graph, chain
from ..launch import CallSizes, Kernel, never_unload
from ..load import load_kernel
from ..memory import device_tensor, lasting_workspace, rounded
from .products import KernelProduct, LibraryProduct, Operands, step_facts

# Launches a product of a step, by its number.
Multiply = Callable[..., None]
# cuda.h: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_PROGRAMMATIC_SERIALIZATION = 6
# Graphs keep such an order since 12.3: CUDA C++ Programming Guide, "Use in CUDA Graphs".
_FIRST_DRIVER = 12030


def overlap_possible() -> bool:
    """Return True if the driver knows such launches, in graphs too."""
    from cupy.cuda import runtime

    return bool(runtime.driverGetVersion() >= _FIRST_DRIVER)


def launch_overlapping(
    kernel: Kernel, grid: tuple[int, int, int], arguments: ctypes.Structure, stream: int
) -> None:
    """Launch a kernel that itself waits for the one before it in the stream.

    Its blocks may begin when those of the kernel before have all allowed it or ended; it must not
    touch what that one reads or writes before its `griddepcontrol.wait`. It is of the current
    device and was launched before.
    """
    given = grid, kernel.threads, kernel.shared, stream
    config = configured(*given, attribute=_PROGRAMMATIC_SERIALIZATION)
    values = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    launch = keeping.cuLaunchKernelEx
    check(launch(config.address, kernel.function, ctypes.addressof(values), None))


# A graph of so many chunks where the length allows: what lies between two graphs, some us, counts
# less there.
_LONG = 8
# What the driver takes for a kernel of a graph: 1280 KiB for 512 of them, on an H200.
_NODE_BYTES = 2560
# Another thread that waits for the whole device ends a capture, at no fault of either.
_ATTEMPTS = 4


class Work:
    """Buffers of one direction at one size, and graphs of chunks of steps over them.

    Args:
        device: the current device.
        stream: the handle of the one stream that runs it: its order keeps two calls apart.
        lasting: whether it serves later calls too. Otherwise it belongs to a caller's capture: its
            buffers are as temporary as any of the caller's tensors, and steps are launched one by
            one, since a graph cannot hold another's replay.
    """

    def __init__(
        self,
        cell: CellSpec,
        plan: AlternatingPlan,
        dtype: torch.dtype,
        device: torch.device,
        sizes: CallSizes,
        stream: int,
        lasting: bool,
    ) -> None:
        facts = step_facts(cell, plan.direction)
        self._plan, self._stream, self._lasting = plan, stream, lasting
        self.direction = direction = plan.direction
        self._kernels = {
            name: load_kernel(cell, plan, name, device.index) for name in plan.kernel_names
        }
        self._graphs: dict[int, Graph] = {}
        self.lock = threading.Lock()
        self.nbytes = (_LONG + 1) * plan.chunk * 2 * _NODE_BYTES
        real = torch.float64 if dtype == torch.float64 else torch.float32
        # `SumOverTime` of the kernels.
        total = torch.float32 if dtype.itemsize == 2 else torch.float64

        def new(*size: int, dtype: torch.dtype = real) -> Tensor:
            if lasting:
                tensor = device_tensor(size, dtype, device, stream)
            else:
                tensor = torch.empty(size, dtype=dtype, device=device)
            self.nbytes += rounded(tensor.nbytes)
            return tensor

        # A thread of a block has one item: of the step itself, where the library multiplies.
        self._grid = (math.ceil(math.prod(sizes) / plan.threads), 1, 1)
        operands = Operands(sizes, dtype, direction, new)
        self._product: LibraryProduct | KernelProduct
        if plan.own is None:
            if lasting:
                # The products of a stream run one after another.
                workspace = lasting_workspace(device.index, stream)
                self.nbytes += workspace.nbytes
            else:
                workspace = new(workspace_bytes(device.index), dtype=torch.uint8)
            self._product = LibraryProduct(facts.matrices, operands, workspace, plan.tf32)
            self._step_grid = self._end_grid = self._grid
            if isinstance(plan, StagedAlternatingPlan) and plan.by_head:
                self._step_grid = (sizes[0] * sizes[1], 1, 1)
        else:
            matrices = [each for sources in facts.matrices for each in sources]
            self._product = KernelProduct(matrices, plan.own, operands)
            self._step_grid = self._end_grid = self._product.grid
        self._overlapped = bool(plan.own and plan.own.overlapped and overlap_possible())
        counts = facts_of(cell).counts
        arguments = arguments_of(cell, direction, plan.masked, plan.gates_again)
        sums = sum(counts.sums)
        batch, heads, dim = sizes
        summed = (0 if direction == "forward" else sums, batch, heads, dim)
        self._buffers = {
            "arguments": new(ctypes.sizeof(arguments), dtype=torch.uint8),
            "first_step": new(1, dtype=torch.int32),
            "sums": new(*summed),
            "totals": new(*summed, dtype=total),
        }
        if cell.has_stages:
            self._buffers["values"] = new(facts.values, batch, heads, dim)
            self._buffers["numbers"] = new(batch, heads, facts.numbers)
        self._states = [new(batch, heads, dim) for _ in range(counts.states)]
        work = workspace_struct(cell, len(self._product.factors))
        self._work = work(
            *sizes,
            pointer(self._buffers["arguments"]),
            pointer(self._buffers["first_step"]),
            pointers(self._states),
            pointers(self._product.factors),
            pointers(self._product.operands),
            pointer(self._buffers["sums"]),
            pointer(self._buffers["totals"]),
            *[pointer(self._buffers[n]) for n in ("values", "numbers") if n in self._buffers],
        )
        self._begin = init_args_struct(arguments, work)
        self._step = step_args_struct(work)
        if not lasting:
            for kernel in self._kernels.values():
                never_unload(kernel)

    def run(self, arguments: ctypes.Structure, steps: int, R: Tensor | None) -> None:
        """Run all steps on torch's current stream, that of this work; R is (Gr, N, D, D)."""
        if R is not None:
            self._product.take(R)
        graphs: list[Graph] = []
        if self._lasting:
            for length in (_LONG * self._plan.chunk, self._plan.chunk):
                count = steps // length
                graph = self._graph(length) if count else None
                if graph is not None:
                    graphs += [graph] * count
                    steps -= count * length
        begin = self._begin(arguments, self._work)
        self._kernels[f"rnnc_{self.direction}_begin"](self._grid, begin, self._stream)
        for graph in graphs:
            graph.launch(self._stream)
        multiply = partial(self._product.multiply, self._stream)
        for number in range(steps):
            self._one(number, self._launch, multiply)
        if self.direction == "backward":
            step = self._step(self._work, 0)
            self._kernels["rnnc_backward_end"](self._end_grid, step, self._stream)

    def _one(self, number: int, launch: Callable[..., None], multiply: Multiply) -> None:
        """Launch a step: after the product of states, or before that of its gates' gradients.

        Products of called gates stand before each further kernel of the step.
        """
        forward = self.direction == "forward"
        arguments = self._step(self._work, number)
        for product, name in enumerate(self._plan.step_names):
            if product or forward:
                multiply(product=product)
            # The first reads what a kernel wrote that knows of no overlap.
            overlapping = self._overlapped and number + product > 0
            launch(self._kernels[name], self._step_grid, arguments, overlapping=overlapping)
        if not forward:
            multiply(product=0)

    def _launch(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        arguments: ctypes.Structure,
        overlapping: bool,
    ) -> None:
        if overlapping:
            launch_overlapping(kernel, grid, arguments, self._stream)
        else:
            kernel(grid, arguments, self._stream)

    def _graph(self, length: int) -> Graph | None:
        """Return the graph of that many steps, made on first use; None if that failed."""
        if length in self._graphs:
            return self._graphs[length]
        # Once outside of it, over what `begin` sets anew: the library loads its kernels.
        for product in range(len(self._plan.step_names)):
            self._product.multiply(self._stream, product)
        for _ in range(_ATTEMPTS):
            try:
                return self._graphs.setdefault(length, self._built(length))
            except Exception as error:
                reason = error
        warn(f"rnnc launches steps one by one, since it could not make a graph of them: {reason}")
        return None

    def _built(self, length: int) -> Graph:
        found = [self._product.captured(i) for i in range(len(self._plan.step_names))]
        with chain() as steps:

            def multiply(product: int) -> None:
                captured = found[product]
                if captured is not None:
                    steps.include(captured.handle)

            for number in range(length):
                self._one(number, steps.add, multiply)
            steps.add(self._kernels["rnnc_advance"], (1, 1, 1), self._step(self._work, length))
            return steps.graph()
