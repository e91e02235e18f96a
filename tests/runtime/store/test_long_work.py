"""Long work tells what it does while it runs."""

from __future__ import annotations

import time
import warnings

import pytest
import rnnc
from rnnc import Gate, State, tanh
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.runtime.cpu import compile
from rnnc.runtime.store import long_work


def test_long_work_is_said_while_it_runs(monkeypatch):
    monkeypatch.setattr(long_work, "PATIENCE", 0.05)
    with (
        pytest.warns(RuntimeWarning, match=r"compiling x for 0\.05 s, and goes on\. Shorter\."),
        long_work.said_if_long("compiling x", "Shorter."),
    ):
        time.sleep(0.5)


def test_short_work_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with long_work.said_if_long("compiling x", "Shorter."):
            pass


def test_a_slow_compiler_is_said(monkeypatch, tmp_path):
    @rnnc.cell
    def slow(g: Gate, h: State):
        return tanh(g) * 0.625

    build = compile.build

    def late(*arguments):
        time.sleep(0.5)
        return build(*arguments)

    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(long_work, "PATIENCE", 0.05)
    monkeypatch.setattr(compile, "build", late)
    with pytest.warns(RuntimeWarning, match="compiling the C.. of slow"):
        compile.cpu_library(slow, CpuPlan())
