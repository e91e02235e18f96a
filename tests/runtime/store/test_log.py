"""The logger `rnnc`: a line per compilation and tuning, of rank 0, and nothing printed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
import rnnc
import torch.distributed as dist
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.codegen.cuda.limits import limits_of
from rnnc.runtime.cpu.compile import CppToolchain
from rnnc.runtime.cuda import tune
from rnnc.runtime.cuda.nvrtc import compile_plan
from rnnc.runtime.store.compiled import compile_cell
from rnnc.runtime.store.tuned import Asked
from torch.testing._internal.distributed.fake_pg import FakeStore

FIRST_CALL = """
import {before}rnnc, torch
rnnc.RNN(rnnc.cells.elman, 3, 4)(torch.randn(2, 1, 3))
"""


@pytest.fixture
def lines(caplog, monkeypatch, tmp_path):
    """Compiles a C++ library, or finds it, and gives the lines since the last call by level."""
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("RNNC_QUICK_COMPILE", "1")
    caplog.set_level(logging.DEBUG, "rnnc")

    def compiled():
        caplog.clear()
        compile_cell(rnnc.cells.elman, CpuPlan(), CppToolchain())
        found = {"INFO": [], "DEBUG": []}
        for record in caplog.records:
            if record.name == "rnnc":
                found[record.levelname].append(record.getMessage())
        return found

    return compiled


def first_call(tmp_path, before=""):
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL.format(before=before)],
        env={**os.environ, "RNNC_CACHE_DIR": str(tmp_path / "new"), "RNNC_QUICK_COMPILE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert any((tmp_path / "new").glob("elman-*.so"))
    return done


def test_a_first_compilation_prints_nothing(tmp_path):
    done = first_call(tmp_path)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_program_sees_the_line_of_a_compilation_with_basic_config(tmp_path):
    done = first_call(tmp_path, before="logging; logging.basicConfig(level='INFO'); import ")
    assert done.stdout == ""
    assert done.stderr.startswith("INFO:rnnc:compiled C++ of elman, float32 for ")
    assert done.stderr.count("\n") == 1


def test_a_compilation_has_one_line_and_a_library_from_the_cache_none(lines):
    first, second = lines(), lines()
    (line,) = first["INFO"]
    assert line.startswith("compiled C++ of elman, float32 for ")
    assert line.endswith(" s")
    assert second["INFO"] == []
    (found,) = second["DEBUG"]
    assert found.startswith("found compiled: C++ of elman, float32 for ")


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK"])
def test_only_rank_0_has_lines(name, lines, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv(name, "1")
    assert lines() == {"INFO": [], "DEBUG": []}
    monkeypatch.setenv(name, "0")
    assert len(lines()["DEBUG"]) == 1


def test_the_rank_in_torch_distributed_counts_before_the_environment(lines, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    try:
        assert lines() == {"INFO": [], "DEBUG": []}
    finally:
        dist.destroy_process_group()
    assert len(lines()["DEBUG"]) == 1


def test_a_line_of_cuda_has_registers_and_spills(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    caplog.set_level(logging.INFO, "rnnc")
    plan = rnnc.plan_for(rnnc.cells.elman, rnnc.Shape(2, 32), limits_of("H200"), "block").forward
    report = compile_plan(rnnc.cells.elman, plan).reports["rnnc_forward"]
    (line,) = caplog.messages
    assert line.startswith("compiled CUDA of elman, block forward, bfloat16 for sm_90")
    assert line.endswith(
        f": rnnc_forward {report.registers} registers, {report.spills} bytes of spills"
    )


def test_a_tuning_has_one_line(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tune, "measure_plans", lambda _, plans, __: [(1.0, 2.0)] * len(plans))
    caplog.set_level(logging.INFO, "rnnc")
    asked = Asked(rnnc.cells.elman, rnnc.Shape(2, 32), limits_of("H200"), "gates", False)
    found = tune.tune(asked, 0)
    (line,) = caplog.messages
    assert line.startswith("tuned elman, 2 x 32, batch 16, 1024 steps, bfloat16 on H200 in ")
    assert line.endswith(f"of {len(found.trials)} plans, {found.winner.brief}")
