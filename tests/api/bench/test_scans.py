"""`rnnc bench --scans`: its floor is what the bytes take, and no cache holds its tensors."""

from __future__ import annotations

import json

import pytest
import rnnc
import torch
from rnnc.bench import measure as bench
from rnnc.bench.cases import RowCase
from rnnc.bench.inputs import Call
from rnnc.bench.measure import Settings, measure
from rnnc.bench.results import Comparison
from rnnc.bench.rows import BenchError, Row
from rnnc.bench.suites.cases import peer_cases, scan_cases
from rnnc.bench.suites.floor import copy_speed, floor_of
from rnnc.bench.tables import cases_table
from rnnc.bench.timing import WarmUp
from rnnc.cli.app import app
from rnnc.cli.bench import suites
from rnnc.codegen.cuda.limits import limits_of
from typer.testing import CliRunner

SMALL = RowCase(
    Row("mingru_highway", 1, 4, 2, 40), ("float32",), ("scan", "fla"), resets=0.2, uncached=True
)


def measured() -> Comparison:
    return measure(SMALL, rnnc.cells.mingru_highway, Settings("cpu", repeat=2, queued=True))


@pytest.mark.parametrize(
    ("name", "forward", "both"),
    [
        ("minlstm", 3 + 1, 6 + 1 + 1),
        ("qrnn", 3 + 2, 6 + 1 + 1),
        # An input with a gradient, which is one more number each way; two states.
        ("mingru_highway", 3 + 1 + 2, 6 + 2 + 1 + 1),
        ("lif", 1 + 2, 2 + 1 + 1),
    ],
)
def test_the_floor_counts_numbers_once(name, forward, both):
    cell, row = rnnc.cells.get(name), Row(name, 2, 8, 4, 16)
    size = 2e-6 * row.batch * row.steps * row.hidden  # ms of a tensor, at a GB per second
    found = floor_of(cell, row, "bfloat16", 1e9, "cpu")
    assert found == pytest.approx((forward * size, (forward + both) * size))


def test_special_functions_may_take_longer(monkeypatch):
    """Two of the forward of HGRN: a sigmoid and a silu; those of params alone are computed once."""
    monkeypatch.setattr("rnnc.bench.suites.floor._multiprocessors", lambda _: 1e-9)
    row = Row("hgrn", 1, 1, 1, 1000)
    hgrn = floor_of(rnnc.cells.hgrn, row, "bfloat16", 1e12, "cpu")
    assert hgrn.forward == pytest.approx(1e3 * 1000 * 2 / 28)
    assert floor_of(rnnc.cells.ema, row, "bfloat16", 1e12, "cpu").forward == pytest.approx(4e-6)


def test_a_cell_with_R_has_no_floor():  # noqa: N802
    assert floor_of(rnnc.cells.lstm, Row("lstm", 1, 4), "float32", 1e9, "cpu") is None


def test_a_copy_counts_what_it_reads_and_writes(monkeypatch):
    monkeypatch.setattr("rnnc.bench.suites.floor.median_time", lambda run, device, runs: 4.0)
    assert copy_speed("cpu", 10**6) == pytest.approx(2e6 / 4e-3)


def test_every_case_has_a_cell_without_R():  # noqa: N802
    kinds = {rnnc.cells.get(case.row.cell).recurrence.kind for case in scan_cases("cuda")}
    assert kinds == {"affine", "diagonal"}
    with pytest.raises(BenchError, match="--cases 'gru'"):
        scan_cases("cuda", "gru")


def test_the_variants_of_a_case_take_part_and_haste_in_its_own_dtype():
    (case,) = scan_cases("cuda", "indrnn")
    asked = case.dtypes, case.kinds, case.peer_dtypes, case.variants
    found = bench.contenders_for(case.row, "cuda", *asked)
    assert [(each.name, each.dtype) for each in found] == [
        *((f"rnnc {way}", "bfloat16") for way in ("walk", "scan", "auto")),
        ("Haste", "float32"),
        ("fla chunk_hgrn", "bfloat16"),
        ("accelerated-scan", "bfloat16"),
    ]


@pytest.mark.parametrize(("host", "calls"), [(0.6, 3), (1.7, 2), (9.0, 1)])
def test_a_run_goes_through_all_sets_and_times_those_that_the_host_can_queue(
    monkeypatch, host, calls
):
    """An `Input` has a value per unit and a gradient."""
    seen = []

    def timed(run, device, ahead):
        before = len(seen)
        run()
        assert device == "cpu"
        assert not seen or len(seen) - before == calls
        return 2.0 * calls, 1.0 * calls

    def recorded(self):
        seen.append(self)
        return torch.autograd.grad(self.run(), self.inputs, self.seed)

    monkeypatch.setattr(bench, "timed", timed)
    monkeypatch.setattr(bench, "_sets", lambda *_: 3)
    monkeypatch.setattr(bench, "warm_up", lambda *_: WarmUp(0.1, host))
    monkeypatch.setattr(Call, "step", recorded)
    figures = measured().results[0].figures
    assert {figure.median for figure in figures.values()} == {2.0}
    assert {figure.host for figure in figures.values()} == {1.0}
    assert len({call.inputs[0].data_ptr() for call in seen}) == 3
    assert {tuple(call.inputs[-1].shape) for call in seen} == {(40, 2, 1, 4)}


def test_results_of_a_run_stay_until_as_many_others_are_there():
    """So that their memory takes turns too."""
    made = []

    def forward():
        made.append(torch.zeros(1))
        return made[-1].clone()

    calls = [Call(forward, torch.zeros(1), []) for _ in range(2)]
    run = bench._runner(calls, "inference")
    assert run(2) is None
    assert len(made) == 2
    (kept,) = [cell.cell_contents for cell in run.__closure__ if "deque" in str(cell)]
    assert len(kept) == 2
    assert bench._runner(calls[:1], "inference")(1) == 0


def test_resets_reach_the_call(monkeypatch):
    given = {}

    def scan(*_, **options):
        given.update(options)
        raise BenchError("enough", "", "")

    monkeypatch.setattr("rnnc.bench.contenders.ours.scan", scan)
    assert measured().left_out.keys() >= {"rnnc, float32"}
    assert given["reset"].shape == (2, 40)
    assert given["reset"].dtype == torch.bool


def test_times_stand_beside_the_floor():
    found = measured()
    found.floor = rnnc.bench.rows.Pair(0.5, 1e-9)
    table = cases_table([found.record()])
    names = list(table.columns[1].cells)
    assert names[:2] == ["floor", "rnnc, float32"]
    assert names[2].startswith("fla chunk_hgrn, float32: found device 'cpu'")
    assert next(iter(table.columns[0].cells)) == str(SMALL)
    least = [float(each) for each in table.columns[-1]._cells[1].split(" / ")]
    forward, both = (found.results[0].figures[p].median for p in ("forward", "forward_backward"))
    assert least == pytest.approx([forward / 0.5, both / 1e-9], rel=0.01)


def test_the_command_writes_its_record(monkeypatch, tmp_path):
    monkeypatch.setattr(suites, "copy_speed", lambda _: 4.18e12)
    path = tmp_path / "found.json"
    words = ["bench", "--scans", "--device", "cpu", "--cases", "resets", "--repeat", "2"]
    outcome = CliRunner().invoke(app, [*words, "--json", str(path)])
    assert outcome.exit_code == 0, outcome.output
    content = json.loads(path.read_text())
    assert content["copy_speed"] == 4.18e12
    (case,) = content["cases"]
    assert [each["name"] for each in case["contenders"]] == ["rnnc"]
    assert case["floor"][1] > case["floor"][0] > 0
    assert "times the floor" in outcome.output


def test_sets_are_more_than_twice_the_cache(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(bench, "device_limits", lambda _: limits_of("H100"))
    small, large = (scan_cases("cuda", name)[0] for name in ("mingru", "hgrn"))
    cells = [rnnc.cells.get(case.row.cell) for case in (small, large)]
    each = 16 * 1024 * 768 * len(cells[0].input_gates) * 2  # bytes
    sets = bench._sets(small, cells[0], "cuda")
    assert (sets - 1) * each <= 2 * limits_of("H100").l2 < sets * each
    assert bench._sets(large, cells[1], "cuda") == 2
    assert bench._sets(peer_cases("cuda", "1")[0], rnnc.cells.lstm, "cuda") == 1
