"""A cell whose body repeats itself is told of, once, where its kernels are compiled."""

from __future__ import annotations

import warnings

import pytest
import rnnc
from rnnc import Gate, State, tanh
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.codegen.derive import derive
from rnnc.runtime.cpu.compile import CppToolchain
from rnnc.runtime.store import long_work
from rnnc.runtime.store.compiled import compile_cell


def test_a_long_body_is_told_of_once_and_says_what_to_write(monkeypatch, tmp_path):
    @rnnc.cell
    def unrolled(g: Gate, h: State):
        for _ in range(30):
            h = tanh(h + g)
        return h

    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    count = len(derive(unrolled).backward.statements)
    monkeypatch.setattr(long_work, "MOST_STATEMENTS", count)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_cell(unrolled, CpuPlan("float64"), CppToolchain())
    monkeypatch.setattr(long_work, "MOST_STATEMENTS", count - 1)
    plans = CpuPlan("float32"), CpuPlan("float32", reverse=True)
    with pytest.warns(RuntimeWarning, match=rf"unrolled .* {count} st.*rnnc\.repeat\(n") as found:
        _ = [compile_cell(unrolled, plan, CppToolchain()) for plan in plans]
    assert len(found) == 1
    assert found[0].filename == __file__
