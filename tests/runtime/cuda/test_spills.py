"""Plans whose kernels spill, in place of which others are taken."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc import Gate, State, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.cuda import choose, load, spills
from rnnc.runtime.cuda.choose import PlanQuestion, choose_plan
from rnnc.runtime.cuda.nvrtc import Binary, KernelReport
from rnnc.runtime.process.caller import warn_once
from rnnc.runtime.store import tuned
from rnnc.runtime.store.tuned import Asked, remember

LSTM, H200 = rnnc.cells.lstm, limits_of("H200")
SHAPE = Shape(12, 64, 256)
FIRST, ASKED = plan_for(LSTM, SHAPE, H200), Asked(LSTM, SHAPE, H200)


REPORT = Binary(H200.arch, b"", {"rnnc_forward": KernelReport(168, 0, 0)}, "")


class Compiler:
    """What stands in for the compiler: it reports the spills that a test says, and takes notes.

    Attributes:
        spills: the bytes that the kernels of a plan spill.
        stack: the bytes of local memory of every kernel.
        compiled: the plans in the order of their first compilation.
    """

    def __init__(self):
        self.spills, self.stack, self.compiled = lambda plan: 0, 0, []

    def __call__(self, cell, plan):
        if plan not in self.compiled:
            self.compiled.append(plan)
        report = KernelReport(168, self.spills(plan), self.stack)
        return Binary(plan.arch, b"", {f"rnnc_{plan.direction}": report}, "")


@pytest.fixture
def compiler_of(monkeypatch, tmp_path):
    """The compiler, on an H200 with room for every plan, and no plan chosen yet."""
    found = Compiler()
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RNNC_TUNE", raising=False)
    monkeypatch.setattr(spills, "compile_plan", found)
    monkeypatch.setattr(choose, "device_limits", lambda _: H200)
    monkeypatch.setattr(choose, "_has_room", lambda *_: True)
    start_anew()
    yield found
    choose_plan.cache_clear()


def start_anew():
    """As in another process."""
    choose_plan.cache_clear()
    warn_once.cache_clear()


def chosen(direction="forward", variant="auto", masked=False, shape=SHAPE, cell=LSTM):
    """The plan of a direction."""
    sizes = shape.heads, shape.head_dim, shape.batch, getattr(torch, shape.dtype), 0
    question = PlanQuestion(cell, *sizes, Choice(variant), False)
    return getattr(choose_plan(question, direction, masked), direction)


def next_plans(count):
    """Of the next distinct forwards, the cheapest first."""
    plans = dict.fromkeys(plan.forward for plan in plans_for(LSTM, SHAPE, H200))
    return [plan for plan in plans if plan != FIRST.forward][:count]


def with_blocks(plan, blocks):
    return replace(
        plan,
        blocks_per_multiprocessor=blocks,
        registers=H200.registers_for(plan.threads * blocks),
        resident=blocks,
    )


@pytest.mark.parametrize("spilled", [0, 256])
def test_a_plan_that_spills_little_stays(spilled, compiler_of, recwarn):
    compiler_of.spills = lambda plan: spilled
    assert chosen() == FIRST.forward
    assert compiler_of.compiled == [FIRST.forward]
    assert not recwarn.list


@pytest.mark.parametrize("variant", ["auto", "block"])
@pytest.mark.parametrize("masked", [False, True])
def test_fewer_blocks_share_an_sm_where_a_kernel_spills(masked, variant, compiler_of, recwarn):
    compiler_of.spills = lambda plan: 600 if plan.blocks_per_multiprocessor > 1 else 60
    first = plan_for(LSTM, SHAPE, H200, "block").in_time(False, masked).forward
    assert first.blocks_per_multiprocessor == 3
    assert chosen(variant=variant, masked=masked) == with_blocks(first, 1)
    assert compiler_of.compiled == [with_blocks(first, n) if n < 3 else first for n in (3, 2, 1)]
    assert not recwarn.list


def test_the_next_plan_that_spills_little_is_taken(compiler_of, recwarn):
    (other,) = next_plans(1)
    compiler_of.spills = lambda plan: 60 if plan == other else 600
    assert chosen() == other
    assert not recwarn.list


def test_of_four_plans_that_spill_the_one_that_spills_least_is_kept_with_one_warning(compiler_of):
    (other,) = next_plans(1)
    compiler_of.spills = lambda plan: 300 if plan == other else 600
    with pytest.warns(RuntimeWarning, match="spills") as said:
        assert chosen() == other
    assert len(compiler_of.compiled) == 4
    (warning,) = said
    assert warning.filename == __file__
    text = str(warning.message)
    kernel = f"lstm, {other.kind} forward, bfloat16, 64 units per head"
    assert text.startswith(f"{kernel}: the kernel spills 300 bytes per thread")
    for remedy in ("Fewer operations", "rnnc.repeat(", "another variant", "dtype", "`rnnc tune`"):
        assert remedy in text


def test_each_direction_has_a_choice_of_its_own(compiler_of):
    compiler_of.spills = lambda plan: 600 if plan == FIRST.backward else 0
    assert chosen("forward") == FIRST.forward
    assert chosen("backward") != FIRST.backward


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("spilled", [60, 300])
def test_a_choice_is_remembered(spilled, masked, compiler_of):
    other = replace(next_plans(1)[0], masked=masked)
    compiler_of.spills = lambda plan: spilled if plan == other else 600
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert chosen(masked=masked) == other
    assert len(said) == (spilled == 300)
    compiler_of.compiled.clear()
    start_anew()
    assert chosen(masked=masked) == other
    assert compiler_of.compiled == []


@pytest.mark.parametrize("updated", ["_version", "package_digest"])
def test_an_update_invalidates_a_choice(updated, compiler_of, monkeypatch):
    compiler_of.spills = lambda plan: 600 if plan == FIRST.forward else 0
    replaced = chosen()
    assert replaced != FIRST.forward
    compiler_of.spills = lambda plan: 0
    start_anew()
    assert chosen() == replaced
    monkeypatch.setattr(tuned, updated, lambda *_: "another")
    start_anew()
    assert chosen() == FIRST.forward


def test_nobody_looks_at_a_plan_that_a_trial_found(compiler_of, recwarn):
    compiler_of.spills = lambda plan: 600
    remember(ASKED, FIRST)
    assert chosen() == FIRST.forward
    assert compiler_of.compiled == []
    assert not recwarn.list


def test_a_trial_has_no_masks_so_their_kernels_are_looked_at(compiler_of):
    compiler_of.spills = lambda plan: 600 if plan.blocks_per_multiprocessor > 2 else 0
    remember(ASKED, FIRST)
    assert chosen(masked=True).blocks_per_multiprocessor == 2


def test_a_trial_counts_more_than_an_earlier_choice(compiler_of):
    compiler_of.spills = lambda plan: 600 if plan == FIRST.forward else 0
    assert chosen() != FIRST.forward
    remember(ASKED, FIRST)
    assert chosen() == FIRST.forward


def test_a_variant_that_the_caller_named_stays_and_each_process_says_what_it_spills(compiler_of):
    compiler_of.spills = lambda plan: 600
    sizes = [SHAPE, replace(SHAPE, batch=250)]
    for _ in range(2):
        start_anew()
        with pytest.warns(RuntimeWarning, match="lstm, cluster backward, .* 600 bytes") as said:
            plans = [chosen("backward", "cluster", shape=shape) for shape in sizes]
        assert len({plan.as_compiled() for plan in plans}) == len(said) == 1
        assert {plan.kind for plan in plans} == {"cluster"}


def test_where_a_plan_holds_no_matrix_no_other_is_compiled(compiler_of):
    shape = Shape(1, 4096)
    compiler_of.spills = lambda plan: 600
    with pytest.warns(RuntimeWarning, match="lstm, alternating forward, bfloat16: .* 600 bytes"):
        chosen(shape=shape)
    assert compiler_of.compiled == [plan_for(LSTM, shape, H200).forward]


@rnnc.cell
def substeps(g: Gate, h: State):
    """A cell that keeps the 100 values of a loop."""
    return rnnc.repeat(100, lambda v: v + 0.01 * tanh(v * g), h)


@pytest.mark.parametrize(
    ("dtype", "direction", "stack", "spilled"),
    [
        ("float32", "backward", 400, 0),
        ("float32", "backward", 656, 256),
        ("float32", "backward", 657, 257),
        ("float64", "backward", 1056, 256),
        ("float32", "forward", 257, 257),
        ("float32", "forward", 256, 0),
    ],
)
def test_what_loops_keep_is_no_spill_and_other_arrays_are(
    dtype, direction, stack, spilled, compiler_of
):
    plan = getattr(plan_for(substeps, Shape(1, 64, dtype=dtype), H200), direction)
    compiler_of.stack = stack
    assert spills.spilled_bytes(substeps, plan) == spilled


def called(step=False, backward=True, lengths=None, cell=LSTM, **options):
    """Call a module of the simulated GPU, and its backward."""
    rnn = rnnc.RNN(cell, 8, 64, backend="simulated", dtype=torch.bfloat16, **options)
    x = torch.randn(*([4] if step else [5, 4]), 8, dtype=torch.bfloat16)
    with torch.set_grad_enabled(backward):
        y, _ = rnn.step(x) if step else rnn(x, lengths=lengths)
    if backward:
        y.sum().backward()


WAYS = {
    "no gradient": {"backward": False},
    "gradient": {},
    "both directions": {"bidirectional": True},
    "layers": {"num_layers": 2},
    "lengths": {"lengths": torch.tensor([1, 5, 3, 2])},
    "single step": {"step": True},
    "single step, no gradient": {"step": True, "backward": False},
    "block": {"variant": "block"},
    "cluster": {"variant": "cluster"},
    "grid": {"variant": "grid"},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_calling_looks_at_the_kernels_that_it_loads(way, simulated_gpu, monkeypatch):
    looked, loaded, load_module = [], [], load._load_module
    monkeypatch.setattr(
        load, "_load_module", lambda cell, plan, _: loaded.append(plan) or load_module()
    )
    monkeypatch.setattr(spills, "compile_plan", lambda _, plan: looked.append(plan) or REPORT)
    called(**WAYS[way])
    assert {plan.direction for plan in loaded} == (
        {"forward"} if WAYS[way].get("backward") is False else {"forward", "backward"}
    )
    assert set(loaded) == set(looked)


def test_a_single_step_that_spills_has_fewer_rows_per_block(simulated_gpu, monkeypatch, recwarn):
    loaded, load_module = [], load._load_module
    monkeypatch.setattr(
        load, "_load_module", lambda cell, plan, _: loaded.append(plan) or load_module()
    )
    report = replace(REPORT.reports["rnnc_forward"], spills=600)
    spilling = replace(REPORT, reports={"rnnc_step_forward": report})
    monkeypatch.setattr(
        spills, "compile_plan", lambda _, plan: spilling if plan.rows > 1 else REPORT
    )
    called(step=True, backward=False)
    assert [plan.rows for plan in loaded] == [1]
    assert not recwarn.list


@pytest.mark.parametrize("step", [False, True])
def test_a_call_says_at_its_line_what_is_spilled(step, simulated_gpu, monkeypatch):
    warn_once.cache_clear()
    report = replace(REPORT.reports["rnnc_forward"], spills=600)
    binary = replace(REPORT, reports={"rnnc_forward": report})
    monkeypatch.setattr(spills, "compile_plan", lambda *_: binary)
    with pytest.warns(RuntimeWarning, match=r"lstm, \w+ (forward|backward), .* 600 bytes") as said:
        called(step)
    assert [warning.filename for warning in said] == [__file__] * 2


def test_lengths_of_an_lstm_make_its_forward_spill_so_fewer_blocks_share_an_sm(
    compiler, monkeypatch
):
    """The one kernel of the library that spills more than 256 bytes at common sizes."""
    monkeypatch.setattr(choose, "device_limits", lambda _: H200)
    monkeypatch.setattr(choose, "_has_room", lambda *_: True)
    start_anew()
    first = FIRST.in_time(False, True).forward
    assert spills.spilled_bytes(LSTM, first) > spills.MOST_SPILLED
    found = chosen(masked=True)
    assert found == with_blocks(first, 2)
    assert spills.spilled_bytes(LSTM, found) == 0
    choose_plan.cache_clear()
