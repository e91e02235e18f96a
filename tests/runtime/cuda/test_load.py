"""Which binary of a plan is loaded."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda import load
from rnnc.runtime.cuda.nvrtc import Binary, KernelReport

CELL = rnnc.cells.lstm


@pytest.fixture
def spilling(monkeypatch):
    """Binaries that spill where several blocks share an SM; gives those that are loaded."""
    loaded = []

    def compiled(cell, plan):
        spills = 600 if plan.blocks_per_multiprocessor > 1 else 60
        return Binary(plan.arch, plan, {"rnnc_forward": KernelReport(168, spills, 0)}, "")

    monkeypatch.setattr(load, "compile_plan", compiled)
    monkeypatch.setattr(load, "LoadedModule", loaded.append)
    load._load_module.cache_clear()
    yield loaded
    load._load_module.cache_clear()


@pytest.mark.parametrize(("masked", "blocks"), [(False, 3), (True, 1)])
def test_fewer_blocks_share_an_sm_where_masks_would_spill(masked, blocks, spilling):
    shape = Shape(12, 64, batch=256)
    plan = plan_for(CELL, shape, limits_of("H200"), "block").in_time(False, masked).forward
    assert plan.blocks_per_multiprocessor == 3
    load._load_module(CELL, plan, 0)
    assert spilling == [replace(plan, blocks_per_multiprocessor=blocks)]
