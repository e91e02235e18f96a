"""`make test-gpu PART=1/4`: the parts together are all tests, each once, and of similar sizes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def part_of():
    """The function of the GPU tests' conftest, which no GPU is needed to call."""
    path = Path(__file__).with_name("gpu") / "conftest.py"
    spec = importlib.util.spec_from_file_location("gpu_conftest", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda ids, part: {
        item.nodeid for item in module.part_of([Item(nodeid=i) for i in ids], part)
    }


class Item(SimpleNamespace):
    __hash__ = object.__hash__


KINDS = ("block", "cluster", "grid", "alternating")
IDS = [
    f"tests/gpu/test_{file}.py::test_{name}[{cell}-{kind}]"
    for file in "abc"
    for name in "xyz"
    for cell in range(25)
    for kind in KINDS
]


@pytest.mark.parametrize("count", [1, 3, 4])
def test_each_test_is_in_one_part(part_of, count):
    parts = [part_of(IDS, f"{number}/{count}") for number in range(1, count + 1)]
    assert sum(map(len, parts)) == len(IDS)
    assert set().union(*parts) == set(IDS)
    assert part_of(IDS[::-1], f"1/{count}") == parts[0]


def test_parts_are_alike(part_of):
    for number in range(1, 5):
        part = part_of(IDS, f"{number}/4")
        assert set(Counter(i.partition("[")[0] for i in part).values()) == {25}
        kinds = Counter(i.rpartition("-")[2] for i in part)
        assert all(35 <= kinds[f"{kind}]"] <= 80 for kind in KINDS), kinds


@pytest.mark.parametrize("part", ["0/4", "5/4", "1", "a/4", "1/0", "/"])
def test_nonsense_is_refused(part_of, part):
    with pytest.raises(pytest.UsageError, match="wanted a part such as 1/4"):
        part_of(IDS, part)
