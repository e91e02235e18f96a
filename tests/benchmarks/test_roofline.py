"""`roofline.py`: kernels without a part compile, shares add up, and ncu's table is read."""

from __future__ import annotations

import json
import sys
from itertools import product

import pytest
import rnnc
import torch
import typer
from rnnc.bench import report
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_cuda
from typer.testing import CliRunner

SIZES = {"block": (12, 64), "cluster": (3, 256), "grid": (1, 768)}


def source_of(variant, direction="forward"):
    cell = rnnc.cells.lstm
    plan = plan_for(cell, Shape(*SIZES[variant]), limits_of("H200"), variant)
    return kernel_source(cell, getattr(plan, direction))


# Half of the cases in `make test`: each kind of plan with each part and each direction.
WITHOUT = [
    pytest.param(*case, marks=pytest.mark.slow if number.bit_count() % 2 else ())
    for number, case in enumerate(product(SIZES, ("product", "pointwise"), DIRECTIONS))
]


@pytest.mark.parametrize(("variant", "without", "direction"), WITHOUT)
def test_kernels_compile_without_a_part(script, variant, without, direction, tmp_path, monkeypatch):
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    source = source_of(variant, direction)
    changed = script("roofline_kernel").WITHOUT[without](source)
    everything = changed.code + "".join(text for _, text in changed.headers)
    assert ("mma.sync" in everything) == (without != "product")
    equation = {"forward": "tanh_z = tanh(z);", "backward": "d_c = d_c_next_sum*sigmoid_f;"}
    assert (equation[direction] in everything) == (without != "pointwise")
    assert set(compile_cuda(changed, "sm_90a").reports) == set(source.plan.kernel_names)


def test_equations_become_sums_of_all_that_they_read(script):
    changed = script("roofline_kernel").without_pointwise(source_of("block"))
    text = changed.code + "".join(text for _, text in changed.headers)
    body = text[text.index("void pointwise_forward(") :].partition("\n}\n")[0]
    # Six inputs, six outputs.
    assert "h_next = real(0.25) * (i);" in body
    assert "tanh_z = real(0.25) * (c);" in body


def test_kernels_that_are_written_otherwise_are_noticed(script):
    module = script("roofline_kernel")
    source = source_of("block")
    bare = module.without_product(source)
    with pytest.raises(module.ChangedKernelError, match=r"no mma\.sync in the text of BlockPlan"):
        module.without_product(bare)


def test_shares_are_what_a_step_loses(script):
    times = {"nothing": (1.0, 2.0), "product": (0.8, 1.0), "pointwise": (1.1, 1.5)}
    found = {kind: {"7": {"us": {"forward": f, "backward": b}}} for kind, (f, b) in times.items()}
    shares = script("roofline").shares(found, "7")
    assert shares["backward"] == pytest.approx(
        {"exchange": 0.25, "product": 0.5, "pointwise": 0.25}
    )
    assert shares["forward"]["pointwise"] == 0, "nothing is less than nothing"
    found["product"]["7"] = {"failure": "no memory"}
    assert script("roofline").shares(found, "7") == {}


NCU = r"""#!{python}
import sys
words = sys.argv[1:]
if "--query-metrics" in words:
    print("Device NVIDIA H200 (GH100)\n-----")
    print("lts__t_sectors   Counter  sector  # of sectors")
    print("smsp__average_warps_issue_stalled_barrier_per_issue_active  Ratio  x")
    print("smsp__average_warps_issue_stalled_barrier_not_issued_per_issue_active  Ratio  x")
    print("smsp__average_warps_issue_stalled_wait_per_issue_active  Ratio  x")
    sys.exit()
metrics = words[words.index("--metrics") + 1].split(",")
assert "--clock-control" in words and words[words.index("--clock-control") + 1] == "none"
if "dram__throughput.avg.pct_of_peak_sustained_elapsed" in metrics:
    print("==ERROR== Failed to find metric dram__throughput.avg.pct_of_peak_sustained_elapsed")
    sys.exit(1)
def quoted(cells):
    return ",".join('"' + cell + '"' for cell in cells)
with open(words[words.index("--log-file") + 1], "w") as log:
    print("==PROF== Connected to process 1", file=log)
    print(quoted(["ID", "Kernel Name", *metrics]), file=log)
    print(quoted(["", "", *["%"] * len(metrics)]), file=log)
    for i, name in enumerate(["rnnc_forward", "rnnc_backward"] * {rows}):
        values = ["3" if "barrier" in m else "1,000.5" if "lts" in m else "1" for m in metrics]
        print(quoted([str(i), name, *values]), file=log)
"""


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """A tool that knows few counters, and refuses one of those that it was asked for."""

    def make(rows: int) -> None:
        path = tmp_path / "bin" / "ncu"
        path.parent.mkdir(exist_ok=True)
        path.write_text(NCU.replace("{python}", sys.executable).replace("{rows}", str(rows)))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(path.parent))

    return make


def test_the_table_of_ncu_is_read(script, ncu):
    ncu(1)
    forward, backward = script("roofline_ncu").counters_of(["true"], "rnnc_")
    assert (forward["kernel"], backward["kernel"]) == ("rnnc_forward", "rnnc_backward")
    assert forward["counters"]["L2 %"] == 1000.5
    assert "DRAM %" not in forward["counters"], "it was refused"
    assert forward["stalls"] == {"barrier": 0.75, "wait": 0.25}


def test_a_missing_ncu_says_so(script, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    module = script("roofline_ncu")
    with pytest.raises(module.NcuError, match="found no ncu: install Nsight Compute"):
        module.find_ncu()


def run(script, folder, *words):
    app = typer.Typer()
    app.command()(script("roofline").main)
    return CliRunner().invoke(app, [*words, "--output", str(folder)])


def test_without_a_gpu_it_says_so(script, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    outcome = run(script, tmp_path)
    assert outcome.exit_code == 1
    assert "found no CUDA device" in outcome.output


@pytest.mark.slow
def test_rows_are_measured_in_processes_of_their_own(script, tmp_path):
    outcome = run(script, tmp_path, *"--device cpu --rows 14 --steps 8 --repeat 1".split())
    assert outcome.exit_code == 0, outcome.output
    (path,) = tmp_path.iterdir()
    row = json.loads(path.read_text())["rows"]["14"]
    assert row["us"]["forward"] > 0
    assert row["without_us"]["pointwise"]["forward"] > 0
    # Kernels of the CPU have no matrix instruction that could be left out.
    assert list(row["failures"]) == ["product"]
    assert row["shares"] == {}


@pytest.mark.parametrize(("there", "said"), [(2, "Counters of one launch"), (1, "saw 2 kernels")])
def test_counters_stand_by_row_and_direction(script, ncu, tmp_path, monkeypatch, there, said):
    roofline = script("roofline")
    took = {"row": "a row", "us": {"forward": 1.0, "backward": 2.0}}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(report, "machine", lambda _: {"device": "NVIDIA H200"})
    monkeypatch.setattr(roofline, "_child", lambda r: {str(n): took for n in r["rows"]})
    ncu(there)
    outcome = run(script, tmp_path / "out", "--rows", "2,7")
    assert outcome.exit_code == 0, outcome.output
    assert said in outcome.output
    (path,) = (tmp_path / "out").iterdir()
    assert path.name.startswith("roofline-h200-")
    counted = json.loads(path.read_text())["rows"]["7"]["ncu"]
    assert (counted is not None) == (there == 2)
