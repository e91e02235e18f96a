"""CUDA graphs of a chain of launches, built node by node: no stream captures meanwhile."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..launch import Kernel
from .capture import beside_captures, captured
from .driver import check, driver_library, keeping

# cuda.h: CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
_PROGRAMMATIC_PORT = _PROGRAMMATIC = 1


class _KernelNode(ctypes.Structure):
    """`CUDA_KERNEL_NODE_PARAMS_v2`."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        *((name, ctypes.c_void_p) for name in ("arguments", "extra", "kernel", "context")),
    ]


class _Edge(ctypes.Structure):
    """`CUgraphEdgeData`."""

    _fields_ = [
        *((name, ctypes.c_ubyte) for name in ("from_port", "to_port", "type")),
        ("reserved", ctypes.c_ubyte * 5),
    ]


class Graph:
    """Graph that can be launched; it owns the runtime's handle."""

    def __init__(self, executable: int) -> None:
        from cupy.cuda import runtime

        self._executable = executable
        self._launch, self._destroy = runtime.graphLaunch, runtime.graphExecDestroy

    def launch(self, stream: int) -> None:
        """Launch it on a stream, whose handle is given."""
        self._launch(self._executable, stream)

    def launch_again(self, stream: int) -> None:
        """Launch it as a part of a recorded call, on a stream that has room for it."""
        status = keeping.cuGraphLaunch(self._executable, stream)
        if status:
            check(status)

    def __del__(self) -> None:
        # The driver lets a launch that still runs end first.
        with suppress(Exception), beside_captures():
            self._destroy(self._executable)


class Chain:
    """Launches that follow each other, as the nodes of a graph; made by `chain`."""

    def __init__(self) -> None:
        from cupy_backends.cuda.api import driver

        self._driver, self._check = driver_library(), driver.check_status
        self.handle, self._last = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._driver.cuGraphCreate(ctypes.byref(self.handle), 0))

    def add(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        arguments: ctypes.Structure,
        overlapping: bool = False,
    ) -> None:
        """Add a kernel, which the graph's owner keeps; `overlapping` as in `launch_overlapping`."""
        values = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        block = (kernel.threads, 1, 1)
        more = ctypes.addressof(values), None, None, None
        params = _KernelNode(kernel.function, *grid, *block, kernel.shared, *more)
        node = ctypes.c_void_p()
        before = self._before() if not overlapping else (None, ctypes.c_size_t(0))
        add = self._driver.cuGraphAddKernelNode_v2
        self._check(add(ctypes.byref(node), self.handle, *before, ctypes.byref(params)))
        if overlapping:
            edge = _Edge(from_port=_PROGRAMMATIC_PORT, type=_PROGRAMMATIC)
            ends = ctypes.byref(self._last), ctypes.byref(node)
            connect = self._driver.cuGraphAddDependencies_v2
            self._check(connect(self.handle, *ends, ctypes.byref(edge), ctypes.c_size_t(1)))
        self._last = node

    def include(self, graph: int) -> None:
        """Add a copy of all nodes of a graph, whose handle is given."""
        node = ctypes.c_void_p()
        given = *self._before(), ctypes.c_void_p(graph)
        add = self._driver.cuGraphAddChildGraphNode
        self._check(add(ctypes.byref(node), self.handle, *given))
        self._last = node

    def graph(self) -> Graph:
        """Return a graph of all that was added so far."""
        from cupy.cuda import runtime

        return Graph(runtime.graphInstantiate(self.handle.value))

    def _before(self) -> tuple[object, ctypes.c_size_t]:
        """Return the node that the next one waits for, and how many such nodes there are."""
        if not self._last:
            return None, ctypes.c_size_t(0)
        return ctypes.byref(self._last), ctypes.c_size_t(1)


def graph_of(issue: Callable[[int], None], stream: int | None) -> Graph:
    """Return a graph of launches on a stream as `captured` takes it; nothing runs."""
    from cupy.cuda import runtime

    with beside_captures():
        found = captured(issue, stream)
        return Graph(runtime.graphInstantiate(found.handle))


@contextmanager
def chain() -> Iterator[Chain]:
    """Make a chain, which is gone afterwards; the graphs that it made stay."""
    with beside_captures():
        made = Chain()
        try:
            yield made
        finally:
            made._driver.cuGraphDestroy(made.handle)
