"""`make same`: its cases cover all pairs of values, and what differs between two trees is found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import compare  # noqa: E402
from cases import PROPERTIES, all_pairs, cases, pairwise, text  # noqa: E402
from trees import Tree  # noqa: E402

sys.path.remove(str(HERE))

ROOT = HERE.parents[1]
# Appended to the package: results of modules that are off by a rounding, later than they were.
PLANTED = """
import time as _time
from .runtime.module.rnn import RNN as _Module

_forward = _Module.forward


def _planted(self, *given, **named):
    _time.sleep(0.02)
    y, *rest = _forward(self, *given, **named)
    return y * 1.001, *rest


_Module.forward = _planted
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_300_cases_have_all_pairs_and_are_the_same_each_time(device):
    found = cases(300, device)
    assert found == cases(300, device)
    assert set().union(*map(pairwise.pairs, found)) == all_pairs(device)
    assert len({text(case) for case in found}) > 290


def test_a_gpu_has_more_cases():
    assert all_pairs("cpu") < all_pairs("cuda")
    routes = {case["route"] for case in cases(300, "cuda")}
    assert routes == set(PROPERTIES["route"])


def record(case=0, **values):
    return {"case": case, "text": f"text {case}", **values}


def test_results_that_differ_are_named():
    base = [record(0, digests={"y": "a", "d x": "b"}), record(1, error="E"), record(2, digests={})]
    assert compare.differences(base, base) == []
    head = [record(0, digests={"y": "a", "d x": "c"}), record(1, digests={}), record(2, error="F")]
    lines = compare.differences(base, head)
    assert lines[0] == "case 0, text 0: 1 of 2 results, first d x"
    assert lines[1:] == ["case 1, text 1: E -> runs", "case 2, text 2: runs -> F"]
    missing = [record(0, digests={"y": "a"}), *base[1:]]
    assert compare.differences(base, missing) == ["case 0, text 0: 1 of 2 results, first d x"]


def test_what_all_rounds_say_is_slower_is_named():
    def side(*host):
        return [record(number, host=time) for number, time in enumerate(host)]

    same = [(side(1000, 5000), side(1010, 4900))] * 3
    assert compare.slower(same)[0] == []
    slow = [(side(1000, 5000), side(2000, 5000))] * 3
    lines, table = compare.slower(slow)
    assert lines == [
        "host: 1.414 times as much in the mean, 1.05 allowed",
        "host: 2.00 times as much in case 0, text 0",
    ]
    assert table.row_count == 1
    noisy = [(side(1000, 5000), side(time, 5000)) for time in (5000, 1000, 1000)]
    assert compare.slower(noisy)[0] == []


def test_more_memory_is_named():
    rounds = [([record(peak=1000)], [record(peak=1030)])]
    assert len(compare.slower(rounds)[0]) == 2


def test_kernels_that_differ_are_named(tmp_path):
    trees = [Tree(tmp_path, tmp_path / name) for name in ("base", "head")]
    for tree in trees:
        (tree.work / "cache").mkdir(parents=True)
        (tree.work / "sources").write_text("lstm.cpp 1\n", "utf-8")
        (tree.work / "cache" / f"lstm-{tree.work.name}.so").write_bytes(b"same")
        log = f"Compile time = {len(tree.work.name)}.{id(tree)} ms".encode()
        (tree.work / "cache" / f"lstm-{tree.work.name}.cubin").write_bytes(log + b"same")
        (tree.work / "cache" / f"lstm-{tree.work.name}.memo").write_text(tree.work.name, "utf-8")
    assert compare.of_kernels(*trees) == []
    (trees[1].work / "cache" / "lstm-head.so").write_bytes(b"other")
    (trees[1].work / "sources").write_text("lstm.cpp 2\n", "utf-8")
    assert compare.of_kernels(*trees) == [
        "source only before: lstm.cpp 1",
        "source only after: lstm.cpp 2",
        "binaries of lstm.so differ",
    ]


@pytest.mark.slow
def test_three_planted_differences_are_found(tmp_path):
    """Other results, another source and a later call, in a copy of this very tree."""
    planted = tmp_path / "planted"
    rooms = [path for path in ROOT.iterdir() if (path / "__init__.py").exists()]
    for room in [*rooms, ROOT / "templates"]:
        shutil.copytree(room, planted / room.name, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", planted)
    with (planted / "api" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(PLANTED)
    header = planted / "templates" / "cpu" / "lib" / "layout.h"
    header.write_text(header.read_text("utf-8") + "// planted\n", "utf-8")
    work = tmp_path / "work"
    command = [sys.executable, HERE / "compare.py", ROOT, planted, "--work", work]
    done = subprocess.run(
        [*map(str, command), "--count", "4", "--rounds", "1", "--repeat", "3"],
        env=os.environ | {"RNNC_QUICK_COMPILE": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^case \d, .* results, first call 0, y$", done.stdout, re.MULTILINE)
    assert "source only after: " in done.stdout
    assert re.search(r"^host: .* times as much in case \d", done.stdout, re.MULTILINE)
    assert " 0 with an error" in done.stdout
