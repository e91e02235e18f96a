"""Layers that could run at the same time, and whose kernels spill."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.wavefront.groups import LayerSizes
from rnnc.runtime.call.layer_call import Choice, layer_call_of
from rnnc.runtime.cuda import spills
from rnnc.runtime.cuda.nvrtc import KernelReport
from rnnc.runtime.cuda.wavefront.schedule import Question, schedule_of
from rnnc.runtime.process.caller import warn_once

SIZES = LayerSizes(layers=4, steps=2048, batch=16, heads=12, inputs=768, gates=4)


@pytest.fixture
def scheduled(driver, monkeypatch):
    """The schedule of a forward whose kernels spill so much, and the plans that were compiled."""

    def scheduled(order, spilled):
        looked = []

        def compiled(cell, plan):
            looked.append(plan)
            report = KernelReport(168, spilled(plan), 0)
            return SimpleNamespace(reports={"rnnc_forward": report})

        monkeypatch.setattr(spills, "compile_plan", compiled)
        warn_once.cache_clear()
        text, over_time = rnnc.cells.lstm.text, (True, False)
        layer_call = layer_call_of(text, "simulated", True, over_time, Choice(), False)
        question = Question(layer_call, "forward", SIZES, torch.bfloat16, None, order)
        return schedule_of(question), looked

    return scheduled


def test_only_their_own_kernel_is_compiled(scheduled):
    found, looked = scheduled("auto", lambda plan: 0)
    assert max(found.groups) > 1
    assert looked == [found.plan]
    assert found.plan.wavefront


def test_they_run_one_by_one_where_it_spills(scheduled, recwarn):
    found, _ = scheduled("auto", lambda plan: 600 if plan.wavefront else 0)
    assert found.groups == (1,) * SIZES.layers
    assert found.chunk == 0
    assert not recwarn.list


def test_who_asks_for_them_is_told(scheduled):
    with pytest.warns(RuntimeWarning, match="lstm, block forward, bfloat16.* 600 bytes"):
        found, _ = scheduled("wavefront", lambda plan: 600)
    assert max(found.groups) > 1


def test_products_are_cut_alike_whatever_is_spilled(scheduled, recwarn):
    found, _ = scheduled("sequential", lambda plan: 600)
    assert found.groups == (1,) * SIZES.layers
    assert found.chunk
    assert not recwarn.list
