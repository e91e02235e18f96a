"""The measurements of `rnnc bench`: its clock, its contenders, its loops and its record."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.bench import measure as bench
from rnnc.bench import plot as bench_plot
from rnnc.bench import precompile as bench_ahead
from rnnc.bench.anchors import read_anchors
from rnnc.bench.contenders.choice import contenders_for
from rnnc.bench.contenders.contender import Contender
from rnnc.bench.contenders.eager_loops import has_loop, plain_loop
from rnnc.bench.contenders.kinds import KINDS, kinds_named
from rnnc.bench.first_call import first_result
from rnnc.bench.inputs import Inputs
from rnnc.bench.measure import PHASES, Comparison, Result, Settings, measure_row, short_row
from rnnc.bench.report import best_peer, file_stem, machine, over_plan, reached, record
from rnnc.bench.rows import ROWS, BenchError, Pair, Row, rows_named
from rnnc.bench.timing import Figure, WarmUp, timed
from rnnc.codegen.cuda.kinds import variants
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import PlanError, Shape

ANCHORS = Path(__file__).parents[3] / "benchmarks" / "anchors.json"
ROW = Row("lstm", 2, 4, 2, 6)
SETTINGS = Settings("cpu", ("float32",), kinds=("scan", "module", "nn", "loop"), repeat=3)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return measure_row(ROW, rnnc.cells.lstm, SETTINGS)


def figure(milliseconds: float) -> Figure:
    return Figure(milliseconds, milliseconds, milliseconds, 0.1, 30)


def result(name: str, forward: float, both: float, *, ours: bool, note: str = "") -> Result:
    contender = Contender(name, "bfloat16", ours, "wx ready", lambda _: NotImplemented, note=note)
    return Result(contender, {"forward": figure(forward), "forward_backward": figure(both)})


def test_every_contender_is_measured_in_every_phase(found):
    names = [r.contender.name for r in found.results]
    assert names == ["rnnc", "rnnc.RNN", "nn.LSTM", "eager loop"]
    for each in found.results:
        assert not each.failures
        assert list(each.figures) == list(PHASES)
        assert all(f.runs == 3 and 0 < f.fastest <= f.median for f in each.figures.values())
        assert each.first_seconds is not None
        assert each.peak_mib is None


def test_a_failing_contender_is_reported_and_the_others_go_on(monkeypatch):
    def broken(_: Inputs) -> bench.Call:
        raise ValueError("no nvcc\nsecond line")

    def late(inputs: Inputs) -> bench.Call:
        def run() -> torch.Tensor:
            if torch.is_grad_enabled():
                return inputs.wx.sum()
            raise RuntimeError("only in inference")

        return bench.Call(run, torch.ones(()), [inputs.wx])

    def infinite(inputs: Inputs) -> bench.Call:
        return bench.Call(lambda: inputs.wx / 0, inputs.wx, [inputs.wx])

    chosen = [
        Contender(name, "float32", False, "wx ready", prepare)
        for name, prepare in (("broken", broken), ("late", late), ("infinite", infinite))
    ]
    monkeypatch.setattr(bench, "contenders_for", lambda *_: chosen)
    results = measure_row(ROW, rnnc.cells.lstm, SETTINGS).results
    assert [r.failures for r in results] == [
        {"prepare": "ValueError: no nvcc second line"},
        {"inference": "RuntimeError: only in inference"},
        {"prepare": "its output is not finite"},
    ]
    assert [list(r.figures) for r in results] == [[], ["forward", "forward_backward"], []]


def test_a_variant_without_a_plan_is_left_out_with_its_constraint(monkeypatch):
    def planless(_: Inputs) -> bench.Call:
        raise PlanError("plan", "head dim 768", "at most 256", "more")

    chosen = [Contender("rnnc block", "float32", True, "wx ready", planless)]
    monkeypatch.setattr(bench, "contenders_for", lambda *_: chosen)
    without = measure_row(ROW, rnnc.cells.lstm, SETTINGS)
    assert not without.results
    reason = "no such plan: found head dim 768; wanted at most 256"
    assert without.left_out == {"rnnc block, float32": reason}


def test_nobody_starts_after_the_deadline():
    settings = Settings("cpu", ("float32",), kinds=("scan", "nn"), deadline=time.monotonic() - 1)
    late = measure_row(ROW, rnnc.cells.lstm, settings)
    assert not late.results
    assert late.left_out["nn.LSTM, float32"] == "the time limit was reached"


def test_who_compiles_for_long_does_not_start_shortly_before_the_deadline(monkeypatch):
    def slow(_: Inputs) -> bench.Call:
        raise AssertionError("started")

    chosen = [Contender("FlashRNN", "float32", False, "wx ready", slow, start=60)]
    monkeypatch.setattr(bench, "contenders_for", lambda *_: chosen)
    settings = Settings("cpu", ("float32",), deadline=time.monotonic() + 10)
    late = measure_row(ROW, rnnc.cells.lstm, settings)
    assert late.left_out == {
        "FlashRNN, float32": "the time limit was reached: it would compile for 60 s"
    }


def test_after_the_deadline_runs_are_few():
    def late(deadline: float) -> list[int]:
        result = Result(Contender("a", "float32", False, "wx ready", lambda _: NotImplemented))
        call = bench.Call(lambda: torch.ones(()), torch.ones(()), [])
        settings = Settings("cpu", ("float32",), repeat=9, deadline=deadline)
        bench._measure_phase("forward", [(result, call)], settings)
        return [f.runs for f in result.figures.values()]

    assert late(time.monotonic() - 1) == [3]
    assert late(time.monotonic() + 60) == [9]


def test_work_ahead_covers_the_host_s_time():
    assert WarmUp(1, 0.4).ahead == pytest.approx(0.8)
    assert WarmUp(1, 100).ahead == 5, "a loop's host is never ahead"
    warm_up = bench.warm_up(lambda: time.sleep(0.002), "cpu")
    assert warm_up.first >= 0.002
    assert warm_up.host >= 2


def test_the_clock_tells_a_pause():
    device, host = timed(lambda: time.sleep(0.01), "cpu")
    assert 10 <= device == host < 1000


@pytest.mark.parametrize("name", ["lstm", "slstm", "gru", "elman"])
def test_plain_loops_are_the_cells(name):
    cell = rnnc.cells.get(name)
    inputs = Inputs(cell, Row(name, 2, 5, 3, 7), "float32", "cpu")
    wx, R = inputs.wx.detach().double(), inputs.R.detach().double()
    (wanted, *_), _ = rnnc.scan(cell, wx, R, backend="reference")
    torch.testing.assert_close(plain_loop(name, wx, R), wanted)


def test_every_row_has_a_cell_and_targets_below_its_anchors():
    assert list(ROWS) == list(range(1, 17))
    anchors = read_anchors(ANCHORS)
    assert list(anchors.rows) == list(ROWS)
    for row in map(anchors.at, ROWS.values()):
        assert row.cell in rnnc.cells.names()
        assert has_loop(row.cell)
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
        (lambda: ROW.resized(head_dim=0), "write:  --head-dim 1"),
    ],
)
def test_messages(ask, said):
    with pytest.raises(BenchError) as error:
        ask()
    assert said in str(error.value)


def names(number: int, *kinds: str) -> list[str]:
    row = ROWS[number]
    chosen = contenders_for(
        row, rnnc.cells.get(row.cell), "cuda", ["bfloat16", "float16"], kinds or KINDS
    )
    return [f"{c.name} {c.dtype}" for c in chosen]


def test_every_variant_takes_part_and_torch_in_its_fastest_dtype_too():
    row, cell = ROWS[7], rnnc.cells.lstm
    chosen = contenders_for(row, cell, "cuda", ["bfloat16"], ["scan", "nn"], ["float16"])
    assert [(c.name, c.dtype) for c in chosen if not c.ours] == [
        ("nn.LSTM", "bfloat16"),
        ("nn.LSTM", "float16"),
    ]
    assert [c.variant for c in chosen if c.ours] == list(variants())


def test_flashrnn_takes_part_once_with_what_it_has():
    assert names(2, "flashrnn") == [
        "FlashRNN cuda_fused bfloat16",
        "FlashRNN triton_fused bfloat16",
    ]
    assert names(7, "flashrnn", "flashrnn-alternating") == [
        "FlashRNN cuda_fused bfloat16",
        "FlashRNN cuda bfloat16",
    ]
    assert names(16, "flashrnn", "flashrnn-alternating") == ["FlashRNN cuda bfloat16"]
    assert names(3, "flashrnn-packed") == ["FlashRNN cuda_fused, wx packed bfloat16"]
    assert not names(12, "nn")  # torch has no sLSTM


@pytest.mark.parametrize("number", [2, 7, 14, 16])
def test_flashrnn_gets_its_layouts(number, monkeypatch):
    """In its own memory order, so that its `contiguous()` copies nothing; all gradients. Packed as
    documented where that is asked for.
    """
    orders = {"cuda_fused": "TBHDG", "cuda": "TBHGD", "triton_fused": "BTGHD"}
    seen, packed = [], []

    def flashrnn(wx, R, b, states=None, function="lstm", config=None, backend="", dtype=""):
        order = "BTGHD" if packed else orders[backend]
        assert wx.permute(["BTGHD".index(axis) for axis in order]).is_contiguous()
        assert dtype == "float32"
        seen.append(backend)
        gates, heads, dim = wx.shape[2:]
        assert R.shape == (gates, heads, dim, dim)
        assert b.shape == (4 if function == "gru" else gates, heads, dim)
        h = wx.sum(2) + R.sum() + b.sum()
        return torch.stack([h, h]), None

    monkeypatch.setitem(sys.modules, "flashrnn", SimpleNamespace(flashrnn=flashrnn, __spec__=1))
    row = ROWS[number].resized(head_dim=4, batch=2, steps=40)
    cell = rnnc.cells.get(row.cell)
    kinds = ["flashrnn", "flashrnn-alternating"]
    chosen = contenders_for(row, cell, "cuda", ["float32"], kinds)
    chosen += contenders_for(row, cell, "cuda", ["float32"], ["flashrnn-packed"])
    for contender in chosen:
        packed[:] = ["yes"] * contender.name.endswith("packed")
        call = contender.prepare(Inputs(cell, row, "float32", "cpu"))
        assert [g.shape for g in call.step()] == [t.shape for t in call.inputs]
    assert [c.name.split()[1].rstrip(",") for c in chosen[:-1]] == list(dict.fromkeys(seen))


def test_a_missing_flashrnn_is_left_out():
    if "flashrnn" in sys.modules:
        pytest.skip("it is there")
    settings = Settings("cpu", ("float32",), kinds=("flashrnn",))
    (contender,) = contenders_for(ROWS[7], rnnc.cells.lstm, "cuda", ["float32"], ["flashrnn"])
    inputs = Inputs(rnnc.cells.lstm, ROW, "float32", "cpu")
    result = Result(contender)
    assert bench._prepared(result, inputs, settings) is None
    assert "pip install flashrnn" in result.absent


def test_what_is_compiled_ahead_is_compiled_once(monkeypatch):
    compiled = []
    monkeypatch.setattr(bench_ahead, "compile_plan", lambda *asked: compiled.append(asked))
    row = ROWS[2]
    cell, h200 = rnnc.cells.lstm, limits_of("H200")
    assert bench_ahead.compile_ahead([(row, cell)], ["bfloat16"], h200) > 0
    names = sorted(f"{plan.kind} {plan.direction}" for _, plan in compiled)
    kinds = ["alternating", "block", "cluster", "grid"]
    wanted = [f"{kind} {direction}" for kind in kinds for direction in ("backward", "forward")]
    assert names == wanted, "auto's are two of the others"


def test_a_plan_is_named_beside_what_it_took():
    measured = result("rnnc auto", 2.0, 5.0, ours=True)
    measured.plan = plan_for(rnnc.cells.lstm, Shape(1, 32), limits_of("H200"))
    assert measured.runs_as == "block"
    forward, backward = measured.plan.nanoseconds
    over = over_plan(measured, 1000)
    assert over == {"forward": 2000 / forward, "backward": 3000 / backward}
    assert over_plan(result("nn.LSTM", 1, 2, ours=False), 1000) is None


def test_a_mixed_plan_s_estimates_are_those_of_each_direction_s_plan():
    measured = result("rnnc auto", 2.0, 5.0, ours=True)
    asked = (rnnc.cells.lstm, Shape(12, 64), limits_of("H200"))
    block, cluster = (plan_for(*asked, variant) for variant in ("block", "cluster"))
    measured.plan = Plan(block.forward, cluster.backward)
    assert measured.runs_as == "block+cluster"
    over = over_plan(measured, 1000)
    assert over == {
        "forward": 2000 / block.nanoseconds[0],
        "backward": 3000 / cluster.nanoseconds[1],
    }


def test_a_peer_does_the_same_work():
    compared = Comparison(Row("lstm", 2, 64, target=Pair(1, 2)))
    compared.results += [
        result("rnnc", 1.0, 3.0, ours=True),
        result("FlashRNN", 4.0, 9.0, ours=False),
        result("slow", 5.0, 8.0, ours=False),
        result("small", 0.5, 0.5, ours=False, note="one head of 64 only"),
    ]
    contender = compared.results[0].contender
    assert best_peer(compared, contender, "forward") == 4
    assert best_peer(compared, contender, "forward_backward") == 8
    assert best_peer(compared, contender, "inference") is None
    assert reached(compared, compared.results[0]) == {"forward": True, "forward_backward": False}
    assert reached(compared, compared.results[1]) == {}


def test_the_record_holds_what_was_measured(found):
    content = record([found], SETTINGS, "2026-11-20", "rnnc bench --cell lstm")
    content = json.loads(json.dumps(content))
    assert {"schema", "date", "command", "machine", "method", "rows"} <= set(content)
    (row,) = content["rows"]
    assert (row["cell"], row["heads"], row["head_dim"], row["steps"]) == ("lstm", 2, 4, 6)
    ours, module, peer, loop = row["contenders"]
    assert ours["forward"]["median"] == found.results[0].figures["forward"].median
    ratio = ours["forward"]["median"] / loop["forward"]["median"]
    assert ours["times_best_peer"]["forward"] == pytest.approx(ratio)
    assert module["times_best_peer"] == {}  # against one head of the row's two
    assert peer["note"] == "one head of 4 only"
    assert ours["nanoseconds_a_step"]["forward"] == pytest.approx(
        1e6 * ours["forward"]["median"] / 6
    )


def test_the_machine_is_named_without_its_paths():
    assert machine("cpu")["torch"] == torch.__version__
    assert "/" not in machine("cpu")["device"]
    assert file_stem("cpu", "AMD EPYC", "2026-11-20") == "bench-cpu-2026-11-20"


def test_the_picture_shows_rows_with_figures(found, tmp_path):
    bench_plot.plot([found, Comparison(ROW)], "title", tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    bench_plot.plot([found] * 5, "title", tmp_path / "many.svg")
    assert "eager loop, float32" in (tmp_path / "many.svg").read_text()
    bench_plot.plot([Comparison(ROW)], "title", tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


def test_a_missing_matplotlib_says_what_to_install(found, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BenchError, match=r'pip install "rnnc\[plots\]"'):
        bench_plot.plot([found], "title", tmp_path / "a.svg")


def test_a_first_result_is_timed():
    text = rnnc.cells.elman.text
    request = json.dumps([text, "elman", [1, 4, 2, 3], "float32", "rnnc", "cpu"])
    forward, step = first_result(request)
    assert 0 < forward < step
