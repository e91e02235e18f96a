"""Which plan each direction of a call runs, with launches that only take notes."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape
from rnnc.runtime.call.layer_call import Choice, LayerCall
from rnnc.runtime.call.requests import LayerBackward
from rnnc.runtime.call.tensors import ScanInputs, saved_of
from rnnc.runtime.cuda import kernels as cuda
from rnnc.runtime.cuda import ready, target
from rnnc.runtime.cuda.launch import CallSizes
from rnnc.runtime.cuda.launchers import LAUNCHERS
from rnnc.runtime.cuda.prepared import prepare
from rnnc.runtime.cuda.target import CudaTarget
from rnnc.runtime.program.multiplier import TORCH

LSTM = rnnc.cells.lstm
BATCH, STEPS, HEADS, DIM = 17, 3, 2, 64
SIZES = CallSizes(BATCH, HEADS, DIM)
BLOCK, CLUSTER, GRID, ALTERNATING = (
    plan_for(LSTM, Shape(HEADS, DIM, BATCH), limits_of("H200"), variant)
    for variant in ("block", "cluster", "grid", "alternating")
)


@pytest.fixture
def ran(monkeypatch):
    """What a call would launch: plan, direction, and R as the kernel gets it."""
    notes = []

    def run(launcher, arguments, R, like, steps):
        notes.append((launcher._plan, arguments.R))

    monkeypatch.setattr(cuda, "on_device", lambda device: nullcontext())
    monkeypatch.setattr(target, "multiplier", lambda *_: TORCH)
    for launcher in set(LAUNCHERS.values()):
        monkeypatch.setattr(launcher, "run", run)
    ready.ready_for.cache_clear()
    yield notes
    ready.ready_for.cache_clear()


def inputs():
    new = torch.zeros
    wx, R = new(BATCH, STEPS, HEADS, DIM, 4), new(4, HEADS, DIM, DIM)
    return ScanInputs(wx, R, None, [new(BATCH, HEADS, DIM) for _ in LSTM.states], None, [])


def run(plan):
    """Both directions of a call on zeros; gives the address of R."""
    given, nothing = inputs(), [None, None]
    forward, backward = (prepare(LSTM, p, SIZES, 0) for p in (plan.forward, plan.backward))
    done = cuda.forward(forward, given)
    saved = saved_of(given, done, again=False)
    cuda.Backward(backward, LayerBackward(saved, nothing, nothing)).run()
    return given.R.data_ptr()


@pytest.mark.parametrize("plan", [BLOCK, CLUSTER, GRID, ALTERNATING], ids=lambda p: p.variant)
def test_each_kind_of_plan_runs_in_both_directions(plan, ran):
    run(plan)
    assert [note[0] for note in ran] == [plan.forward, plan.backward]


def test_each_direction_runs_its_own_plan(ran, monkeypatch):
    chosen = Plan(CLUSTER.forward, BLOCK.backward)
    monkeypatch.setattr(ready, "choose_plan", lambda *_: chosen)
    given, nothing = inputs(), [None, None]
    layer_call = LayerCall(LSTM, "cuda", True, (True, True), Choice())
    done = CudaTarget().forward(layer_call, given)
    asked = LayerBackward(saved_of(given, done, again=False), nothing, nothing)
    CudaTarget().backward(layer_call, asked)
    assert [note[0] for note in ran] == [CLUSTER.forward, BLOCK.backward]


@pytest.mark.parametrize("turned", [False, True])
def test_what_the_backward_reads_is_of_its_own_plan(turned, ran):
    own = GRID if turned else BLOCK
    R = run(Plan((BLOCK if turned else GRID).forward, own.backward))
    (_, first), (_, second) = ran
    assert first == R
    assert (second != R) == turned, "only a grid's backward reads the transpose"
    # A grid's blocks leave a sum for each row, a block one for its tile of rows.
    parts = BATCH if turned else -(-BATCH // own.backward.rows)
    assert prepare(LSTM, own.backward, SIZES, 0).plan.parts_of_sums(BATCH, 7) == parts


def test_a_backward_that_fails_after_its_launch_is_not_launched_again(ran, monkeypatch):
    """Its kernel may have written gradients over the saved values that another would read."""

    def fail(*_):
        raise torch.OutOfMemoryError("no room for the sum")

    monkeypatch.setattr(ready, "choose_plan", lambda *_: BLOCK)
    monkeypatch.setattr(ready, "all_plans", lambda *_: [CLUSTER])
    monkeypatch.setattr(cuda, "recurrent_sums", fail)
    given, nothing = inputs(), [None, None]
    layer_call = LayerCall(LSTM, "cuda", True, (True, True), Choice())
    done = CudaTarget().forward(layer_call, given)
    ran.clear()
    saved = saved_of(given, done, again=False)
    with pytest.raises(torch.OutOfMemoryError):
        CudaTarget().backward(layer_call, LayerBackward(saved, nothing, nothing, donated=True))
    assert [note[0] for note in ran] == [BLOCK.backward]
