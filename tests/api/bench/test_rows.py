"""The rows of `rnnc bench`: their sizes, their anchors, and how a user names them."""

from __future__ import annotations

from pathlib import Path

import pytest
import rnnc
from rnnc.bench.anchors import read_anchors
from rnnc.bench.contenders.contender import kinds_named
from rnnc.bench.contenders.loop_steps import STEPS
from rnnc.bench.measure import short_row
from rnnc.bench.rows import ROWS, BenchError, rows_named

ANCHORS = Path(__file__).parents[3] / "benchmarks" / "anchors.json"


def test_every_row_has_a_cell_and_targets_below_its_anchors():
    assert list(ROWS) == list(range(1, 17))
    anchors = read_anchors(ANCHORS)
    assert list(anchors.rows) == list(ROWS)
    for row in map(anchors.at, ROWS.values()):
        assert row.cell in rnnc.cells.names()
        assert row.cell in STEPS
        assert row.target.forward < row.flashrnn.forward
        assert row.target.forward_backward < row.flashrnn.forward_backward


def test_rows_by_number_range_and_all():
    assert [row.number for row in rows_named("9, 2-4")] == [9, 2, 3, 4]
    assert rows_named("all") == list(ROWS.values())


def test_other_sizes_have_no_targets():
    row = rows_named("2")[0]
    assert row.resized(steps=1024, batch=None) is row
    assert row.target is None
    row = read_anchors(ANCHORS).at(row)
    assert row.target == (0.45, 1.3)
    assert row.resized(steps=1024).target == row.target
    assert row.resized(steps=32).target is None
    assert short_row(row, ("scan",)) is None
    assert short_row(row, ("compile",)).steps == 32
    assert short_row(row.resized(steps=8), ("compile",)) is None


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: rows_named("2,99"), "found:  row '99'"),
        (lambda: rows_named("3-1"), "found:  row '3-1'"),
        (lambda: rows_named("two"), "wanted: all, or numbers from 1 to 16, with"),
        (lambda: kinds_named("cudnn"), "wanted: some of scan, module, nn"),
        (lambda: ROWS[2].resized(head_dim=0), "write:  --head-dim 1"),
    ],
)
def test_messages(ask, said):
    with pytest.raises(BenchError) as error:
        ask()
    assert said in str(error.value)
