"""`rnnc bench --scans`: its floor is what the bytes take, its table says who did not run."""

from __future__ import annotations

import json

import pytest
import rnnc
import torch
from rnnc.bench.inputs import Call
from rnnc.bench.rows import BenchError, Row
from rnnc.bench.scans import measure
from rnnc.bench.scans.cases import ScanCase, scan_cases
from rnnc.bench.scans.floor import copy_speed, floor_of
from rnnc.bench.scans.measure import measure_scans
from rnnc.bench.scans.table import reasons, scans_table
from rnnc.cli.app import app
from rnnc.cli.bench import rows, scans
from rnnc.cli.console import print_table
from typer.testing import CliRunner

SMALL = ScanCase(Row("mingru_highway", 1, 4, 2, 9), ways=("auto",), peers=("fla",), resets=0.2)


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
    monkeypatch.setattr("rnnc.bench.scans.floor._multiprocessors", lambda _: 1e-9)
    row = Row("hgrn", 1, 1, 1, 1000)
    hgrn = floor_of(rnnc.cells.hgrn, row, "bfloat16", 1e12, "cpu")
    assert hgrn.forward == pytest.approx(1e3 * 1000 * 2 / 28)
    assert floor_of(rnnc.cells.ema, row, "bfloat16", 1e12, "cpu").forward == pytest.approx(4e-6)


def test_a_cell_with_R_has_no_floor():  # noqa: N802
    assert floor_of(rnnc.cells.lstm, Row("lstm", 1, 4), "float32", 1e9, "cpu") is None


def test_a_copy_counts_what_it_reads_and_writes(monkeypatch):
    monkeypatch.setattr("rnnc.bench.scans.floor.clock_of", lambda run, device, runs: lambda: 4.0)
    assert copy_speed("cpu", 10**6) == pytest.approx(2e6 / 4e-3)


def test_every_case_has_a_cell_without_R():  # noqa: N802
    kinds = {rnnc.cells.get(case.row.cell).recurrence.kind for case in scan_cases()}
    assert kinds == {"affine", "diagonal"}
    with pytest.raises(BenchError, match="--cases 'gru'"):
        scan_cases("gru")


def test_a_run_takes_all_sets_and_its_time_is_shared(monkeypatch):
    """An `Input` has a value per unit and a gradient; outputs of as many runs stay."""
    seen = []

    def clock_of(run, device, runs):
        def clock():
            run()
            return 6.0

        return clock

    def recorded(self):
        seen.append(self)
        return torch.autograd.grad(self.run(), self.inputs, self.seed)

    monkeypatch.setattr(measure, "clock_of", clock_of)
    monkeypatch.setattr(measure, "_sets", lambda *_: 3)
    monkeypatch.setattr(Call, "step", recorded)
    found = measure_scans(SMALL, "cpu", "float32", 1e9, 2)
    assert found.sets == 3
    assert found.took["rnnc auto"] == (2.0, 2.0)
    assert len({call.inputs[0].data_ptr() for call in seen}) == 3
    assert {tuple(call.inputs[-1].shape) for call in seen} == {(9, 2, 1, 4)}


def test_resets_reach_the_call(monkeypatch):
    given = {}

    def scan(*_, **options):
        given.update(options)
        raise BenchError("enough", "", "")

    monkeypatch.setattr("rnnc.bench.contenders.ours.scan", scan)
    assert measure_scans(SMALL, "cpu", "float32", 1e9, 2).left_out.keys() >= {"rnnc auto"}
    assert given["reset"].shape == (2, 9)
    assert given["reset"].dtype == torch.bool


def test_who_did_not_run_has_a_line_and_a_reason(capsys):
    found = measure_scans(SMALL, "cpu", "float32", 1e9, 2)
    print_table(scans_table([found, found]))
    lines = capsys.readouterr().out.splitlines()
    names = [" ".join(line.split()[:-1]) for line in lines]
    assert "mingru_highway, 1 x 4, batch 2, 9 steps, 20 % resets, float32 floor" in " ".join(names)
    assert sum(line.split()[-4:] == ["chunk_hgrn", "-", "-", "-"] for line in lines) == 2
    assert reasons([found, found]).startswith("fla chunk_hgrn: found device 'cpu'")
    assert "\n" not in reasons([found, found])


def test_the_command_refuses_a_cpu_and_other_cases():
    run = CliRunner()
    refused = run.invoke(app, ["bench", "--scans", "--device", "cpu"])
    assert refused.exit_code == 1
    assert "found:  --scans on a CPU" in refused.stderr
    assert "write:  --device cuda" in refused.stderr
    assert run.invoke(app, ["bench", "--scans", "--device", "cpu", "--cases", "99"]).exit_code == 1


def test_the_command_writes_its_record(monkeypatch, tmp_path):
    """With the measurement of a GPU replaced by that of a CPU."""
    monkeypatch.setattr(rows, "_device", lambda _: "cuda")
    monkeypatch.setattr(scans, "copy_speed", lambda _: 4.18e12)
    monkeypatch.setattr(scans, "Record", lambda _, *more, **head: original("cpu", *more, **head))
    monkeypatch.setattr(
        scans, "measure_scans", lambda case, _, *rest: measure_scans(SMALL, "cpu", *rest)
    )
    path = tmp_path / "found.json"
    words = ["bench", "--scans", "--cases", "4", "--repeat", "2", "--dtype", "float32"]
    outcome = CliRunner().invoke(app, [*words, "--json", str(path)])
    assert outcome.exit_code == 0, outcome.output
    assert "a copy reads and writes 4.18 TB/s" in outcome.stdout
    content = json.loads(path.read_text())
    assert content["copy_speed"] == 4.18e12
    (case,) = content["cases"]
    assert case["took"]["rnnc auto"].keys() == {"forward", "forward_backward"}
    assert case["floor"].keys() == case["took"]["rnnc auto"].keys()
    assert case["left_out"].keys() == {"fla chunk_hgrn"}


original = scans.Record
