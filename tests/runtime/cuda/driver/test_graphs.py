"""CUDA graphs built node by node, with a recording driver: dependencies and their kinds."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext

import pytest
from rnnc.runtime.cuda.driver import graphs
from rnnc.runtime.cuda.driver.graphs import chain
from rnnc.runtime.cuda.launch import Kernel

GRAPH = 100


class Arguments(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int64)]


class Driver:
    """Gives nodes numbers; reads what it is given as C would."""

    def __init__(self):
        self.nodes, self.destroyed, self.failing = [], [], None

    def cuGraphCreate(self, graph, flags):  # noqa: N802
        graph._obj.value = GRAPH
        return 0

    def cuGraphDestroy(self, graph):  # noqa: N802
        self.destroyed.append(graph.value)
        return 0

    def new(self, node, before, count, what):
        assert count.value == (before is not None)
        self.nodes.append([what, before and before._obj.value, "whole" if before else None])
        node._obj.value = len(self.nodes)
        return 0

    def cuGraphAddKernelNode_v2(self, node, graph, before, count, params):  # noqa: N802
        p = params._obj
        values = ctypes.cast(p.arguments, ctypes.POINTER(ctypes.c_void_p))
        number = Arguments.from_address(values[0]).number
        grid = p.grid_x, p.grid_y, p.grid_z
        sizes = grid, (p.block_x, p.block_y, p.block_z), p.shared_bytes
        assert (p.extra, p.kernel, p.context) == (None, None, None)
        return self.new(node, before, count, (p.function, *sizes, number))

    def cuGraphAddDependencies_v2(self, graph, first, second, edge, count):  # noqa: N802
        e = edge._obj
        assert (e.from_port, e.to_port, e.type, list(e.reserved), count.value) == (
            1,
            0,
            1,
            [0] * 5,
            1,
        )
        node = self.nodes[second._obj.value - 1]
        assert node[1] is None
        node[1:] = first._obj.value, "programmatic"
        return 0

    def cuGraphAddChildGraphNode(self, node, graph, before, count, child):  # noqa: N802
        return self.new(node, before, count, child.value)


@pytest.fixture
def driver(monkeypatch):
    cuda = pytest.importorskip("cupy.cuda")
    found = Driver()
    monkeypatch.setattr(graphs, "driver_library", lambda: found)
    monkeypatch.setattr(graphs, "beside_captures", nullcontext)
    found.log = []
    monkeypatch.setattr(cuda.runtime, "graphInstantiate", lambda handle: handle + 1)
    monkeypatch.setattr(cuda.runtime, "graphLaunch", lambda *given: found.log.append(given))
    monkeypatch.setattr(cuda.runtime, "graphExecDestroy", lambda e: found.log.append(e))
    return found


KERNEL = Kernel("step", 42, 96, 8, None, 0)
HOW = (42, (3, 2, 1), (96, 1, 1), 8)


def test_each_node_waits_for_the_one_before_it(driver):
    with chain() as made:
        made.add(KERNEL, (3, 2, 1), Arguments(5))
        made.add(KERNEL, (3, 2, 1), Arguments(6), overlapping=True)
        made.include(77)
        made.add(KERNEL, (3, 2, 1), Arguments(7))
        graph = made.graph()
    assert driver.nodes == [
        [(*HOW, 5), None, None],
        [(*HOW, 6), 1, "programmatic"],
        [77, 2, "whole"],
        [(*HOW, 7), 3, "whole"],
    ]
    assert driver.destroyed == [GRAPH]
    graph.launch(9)
    del graph
    assert driver.log == [(GRAPH + 1, 9), GRAPH + 1]


def test_an_interrupt_leaves_no_graph(driver):
    def interrupted():
        with chain() as made:
            made.add(KERNEL, (1, 1, 1), Arguments(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert driver.destroyed == [GRAPH]
    assert driver.log == []
