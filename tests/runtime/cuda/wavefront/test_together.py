"""Operations on one stream, issued one by one or as a graph."""

from __future__ import annotations

import pytest
import torch
from rnnc.runtime.cuda import together
from rnnc.runtime.cuda.products.multiply import Multiply
from rnnc.runtime.cuda.together import Together
from rnnc.runtime.program.ops import Running

LANE = 7


class Graph:
    """What was issued while a stream captured."""

    def __init__(self, issue, stream):
        assert stream == LANE
        before = len(ISSUED)
        issue(stream)
        self.own = ISSUED[before:]
        del ISSUED[before:]
        MADE.append(self)

    def launch_again(self, stream):
        assert stream == LANE
        ISSUED.extend(("graph", each) for each in self.own)


ISSUED: list[object] = []
MADE: list[Graph] = []


@pytest.fixture(autouse=True)
def graphs(monkeypatch):
    monkeypatch.setattr(together, "graph_of", Graph)
    ISSUED.clear()
    MADE.clear()


@pytest.fixture
def issue():
    """Issue two operations on two of three tensors at some addresses; tell what was issued."""

    def op(slot):
        return lambda running: ISSUED.append((slot, running.addresses[slot]))

    one = Together(LANE, [op(0), op(2)], [0, 2])

    def issue(*addresses):
        ISSUED.clear()
        one(Running(0, [None] * 3, [*addresses]))
        return list(ISSUED)

    return issue


def test_addresses_that_come_again_are_a_graph(issue):
    wanted = [(0, 10), (2, 30)]
    assert issue(10, 20, 30) == wanted
    assert issue(10, 20, 30) == [("graph", each) for each in wanted]
    assert issue(10, 99, 30) == [("graph", each) for each in wanted]  # they use no other tensor
    assert len(MADE) == 1


def test_other_addresses_are_issued_as_they_are(issue):
    for _ in range(3):
        issue(10, 20, 30)
    assert issue(11, 20, 30) == [(0, 11), (2, 30)]
    assert issue(11, 20, 30) == [("graph", (0, 11)), ("graph", (2, 30))]
    assert issue(10, 20, 30) == [("graph", (0, 10)), ("graph", (2, 30))]


def test_two_sets_of_addresses_take_turns(issue):
    for turn in range(6):
        found = [issue(place, 0, 0) for place in (10, 11)]
        assert all((each[0][0] == "graph") == (turn > 0) for each in found)
    assert len(MADE) == 2


def test_addresses_that_never_come_again_make_no_graph(issue):
    for place in range(100):
        assert issue(place, 0, 0) == [(0, place), (2, 0)]
    assert MADE == []


def test_addresses_that_keep_changing_make_few_graphs(issue):
    for place in range(100):
        assert issue(place, 0, 0) == [(0, place), (2, 0)]
        issue(place, 0, 0)
    assert 0 < len(MADE) < 12


def test_launches_pay_for_further_graphs(issue):
    for place in range(30):
        for _ in range(1 + together._COST):
            issue(place, 0, 0)
    assert len(MADE) == 30


def test_an_error_while_a_graph_is_made_keeps_none(issue, monkeypatch):
    def fails(*_):
        raise KeyboardInterrupt

    issue(10, 20, 30)
    with monkeypatch.context() as patch:
        patch.setattr(together, "graph_of", fails)
        with pytest.raises(KeyboardInterrupt):
            issue(10, 20, 30)
    assert issue(10, 20, 30) == [("graph", (0, 10)), ("graph", (2, 30))]


def test_a_driver_that_makes_no_graph_is_asked_once(issue, monkeypatch):
    asked = []

    def refuses(issue, stream):
        asked.append(stream)
        raise RuntimeError("cudaErrorMemoryAllocation")

    monkeypatch.setattr(together, "graph_of", refuses)
    for _ in range(5):
        assert issue(10, 20, 30) == [(0, 10), (2, 30)]
    assert asked == [LANE]


def test_a_graph_is_of_the_memory_that_its_products_share(monkeypatch):
    """A stream may get other memory, and what it had is freed: a graph must not write there."""
    launched, places = [], [torch.empty(1), torch.empty(1)]
    current = iter([0, 0, 0, 1, 1, 1, 0])
    monkeypatch.setattr(together, "lasting_workspace", lambda device, stream: places[next(current)])

    class Product(Multiply):
        def __init__(self):
            self._device, self._own, self.lane = 3, None, None

        def __call__(self, running):
            launched.append("product")

    class Captured:
        def __init__(self, issue, stream):
            issue(stream)
            launched[-1] = number = len(MADE)
            MADE.append(number)
            self.number = number

        def launch_again(self, stream):
            launched.append(self.number)

    monkeypatch.setattr(together, "graph_of", Captured)
    one = Together(None, [Product()], [0])
    for _ in range(7):
        one(Running(5, [None], [10]))
    assert launched == ["product", 0, 0, 0, "product", 1, 1, 1, 0]


def test_a_stream_without_a_lane_is_captured_by_another_one(monkeypatch):
    """Products still use the workspace of the stream that the graph is launched on."""
    seen = []

    class Captured:
        def __init__(self, issue, stream):
            assert stream is None
            issue(99)

        def launch_again(self, stream):
            seen.append(("graph", stream))

    monkeypatch.setattr(together, "graph_of", Captured)
    one = Together(None, [lambda running: seen.append((running.stream, running.owner))], [0])
    for _ in range(3):
        one(Running(5, [None], [10]))
    assert seen == [(5, 5), (99, 5), ("graph", 5), ("graph", 5)]
