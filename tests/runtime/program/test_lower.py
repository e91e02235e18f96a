"""Programs of calls on a GPU that is not there: complete, and in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
import rnnc
import torch
from rnnc.cli.program import Sizes, program_of
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.request import steps_like
from rnnc.runtime.call.call import Tensors
from rnnc.runtime.call.settings import Asked, call_of
from rnnc.runtime.cuda.alternating.run import Steps
from rnnc.runtime.cuda.driver.device import describe
from rnnc.runtime.cuda.launch import Fill, Launch
from rnnc.runtime.cuda.together import Together, issued_together
from rnnc.runtime.grad.compute import forward_of
from rnnc.runtime.program import lower as lowering
from rnnc.runtime.program.lower import lower
from rnnc.runtime.program.ops import (
    Addressed,
    Allocate,
    AllocateTogether,
    Free,
    Operate,
    Overwrite,
)


@rnnc.cell
def gated(z: rnnc.Gate, n: rnnc.Gate, h: rnnc.State, *, keep: rnnc.Input):
    """A cell with an input that no weight multiplies."""
    return keep * rnnc.sigmoid(z) * h + rnnc.tanh(n)


# A name, the cell, the sizes, and the kinds of operations that the programs have among others.
CASES = {
    "one layer": (rnnc.cells.lstm, Sizes(), {"Launch", "Multiply"}),
    "heads and layers": (rnnc.cells.gru, Sizes(4, 64, layers=3, steps=20), {"Launch"}),
    "both directions, one call": (rnnc.cells.lstm, Sizes(bidirectional=True), {"Launch"}),
    "both directions, two streams": (
        rnnc.cells.lstm,
        Sizes(head_dim=640, batch=64, bidirectional=True),
        {"Split", "ChangeStreams", "Unsplit"},
    ),
    "wavefront": (
        rnnc.cells.lstm,
        Sizes(12, layers=4),
        {"Fork", "Enter", "HandOver", "Together", "Leave", "Join"},
    ),
    "grid": (rnnc.cells.lstm, Sizes(head_dim=2048, steps=9), {"Fill", "Launch"}),
    "alternating": (rnnc.cells.lstm, Sizes(variant="alternating", layers=2), {"Steps"}),
    "walk": (rnnc.cells.sru, Sizes(variant="walk", layers=2), {"Launch"}),
    "scan": (rnnc.cells.hgrn, Sizes(steps=9000, variant="scan"), {"Fill", "Launch"}),
    "scan in order": (rnnc.cells.hgrn, Sizes(variant="scan", bidirectional=True), {"Launch"}),
    "nothing saved but states": (rnnc.cells.elman, Sizes(12, layers=2), {"Launch"}),
    "no products": (rnnc.cells.hgrn, Sizes(12, variant="alternating"), {"Steps"}),
    "float32": (rnnc.cells.slstm, Sizes(dtype="float32", layers=2), {"Launch"}),
    "an Input": (gated, Sizes(layers=2), {"Launch"}),
    "no input": (rnnc.cells.get("lstm"), Sizes(1, 8, steps=1, batch=1), {"Launch"}),
}


class ProgramError(AssertionError):
    """An operation uses what there is not, or streams are out of order."""


def check_program(program, inputs):
    """Check that operations use memory that there is, and that streams fork, enter and join."""
    there, entered, forked, split = set(range(inputs)), set(), False, False
    for number, op in enumerate(program.ops):
        what = f"operation {number}, {type(op).__name__}"
        if isinstance(op, Allocate):
            if op.like is not None and not (op.like < 0 or op.like in there):
                raise ProgramError(f"{what} is of a tensor like one that is gone")
            there.add(op.slot)
        elif isinstance(op, AllocateTogether):
            there.update(slot for slot, _ in op._offsets)
        elif isinstance(op, Operate):
            there.update(op._slots)
        elif isinstance(op, Free):
            there -= set(op.slots)
        for each in getattr(op, "ops", [op]):
            used = {slot for _, slot, _ in each.places} if isinstance(each, Addressed) else set()
            if not {slot for slot in used if slot >= 0} <= there:
                raise ProgramError(f"{what} uses memory that is gone")
        if op.lane is not None:
            if not forked:
                raise ProgramError(f"{what} is on a stream that was not forked")
            if type(op).__name__ == "Enter":
                entered.add(op.lane)
            elif op.lane not in entered:
                raise ProgramError(f"{what} is on a stream that did not enter")
        forked = (forked or op.order == "fork") and op.order != "join"
        split = (split or op.order == "split") and op.order != "unsplit"
    if forked or split:
        raise ProgramError("a stream is left behind")
    for view in program.results:
        if view is not None and view.slot >= 0 and view.slot not in there:
            raise ProgramError(f"the result {view.slot} is gone")


@pytest.fixture
def lowered(monkeypatch):
    """The programs that are made, with their numbers of inputs."""
    made = []

    def noted(compute, inputs, device):
        program, results = lower(compute, inputs, device)
        made.append((program, len(inputs)))
        return program, results

    monkeypatch.setattr("rnnc.cli.program.lower", noted)
    return made


def kinds(program):
    """The names of the classes of all operations."""
    return {type(each).__name__ for op in program.ops for each in (op, *getattr(op, "ops", ()))}


@pytest.mark.parametrize("case", CASES)
def test_programs_are_complete_and_in_order(case, lowered):
    cell, sizes, wanted = CASES[case]
    text = program_of(cell, sizes, "H200")
    assert len(lowered) == 2  # forward and backward
    found = set()
    for program, inputs in lowered:
        check_program(program, inputs)
        found |= kinds(program)
    assert wanted <= found
    assert text == program_of(cell, sizes, "H200")
    for direction in ("forward", "backward"):
        assert f"rnnc_{direction}" in text or "steps of a product and a kernel" in text
    names = [name for name, _ in rnnc.RNN(cell, sizes.head_dim, sizes.head_dim).named_parameters()]
    assert all(f"d_{name}: t" in text for name in ("x", *names))


@pytest.mark.parametrize("heads", [1, 12])
@pytest.mark.parametrize("name", ["gru_reset_first", "joint_norm_lstm"])
def test_a_step_by_the_kernels_of_sequences_is_issued_together(name, heads, lowered):
    program_of(rnnc.cells.get(name), Sizes(heads, 768 // heads, steps=1), "H200")
    (program, inputs), (backward, _) = lowered
    work = [op for op in program.ops if isinstance(op, Addressed)]
    program.ops = issued_together(program.ops)
    check_program(program, inputs)
    (one,) = [op for op in program.ops if not isinstance(op, Allocate | AllocateTogether | Free)]
    assert isinstance(one, Together)
    assert one.ops == tuple(work)
    assert one.lane is None
    # Operators of torch allocate what they return: a graph would not see that.
    assert any(isinstance(op, Operate) for op in backward.ops)
    assert issued_together(backward.ops) is backward.ops


def test_launches_of_a_short_call_are_issued_together(lowered):
    program_of(rnnc.cells.lstm, Sizes(1, 512, layers=4, steps=4, batch=2), "H200")
    for program, inputs in lowered:
        before = [type(op) for op in program.ops]
        program.ops = issued_together(program.ops)
        check_program(program, inputs)
        kinds = [type(op) for op in program.ops]
        assert kinds.count(Together) == 1
        assert Launch not in kinds
        after = kinds[kinds.index(Together) :]
        assert Overwrite not in after
        assert kinds.count(Overwrite) == before.count(Overwrite)
    assert Overwrite in kinds  # the backward overwrites what the forward saved


@pytest.mark.parametrize(("mib", "together"), [(2, True), (3, False)])
def test_launches_stay_apart_where_they_would_hold_more_memory(mib, together):
    """Together, all memory is there at once."""
    one, fill = torch.empty(mib << 20, dtype=torch.uint8), Fill(torch.zeros(1), 0)
    ops = [Allocate(0, one), fill, Free((0,)), Allocate(1, one), fill, fill, Free((1,))]
    assert (issued_together(ops) is not ops) is together


def test_steps_of_an_alternating_plan_stay_outside_of_a_graph(lowered):
    """They are graphs of the stream that they run on, with memory of its own."""
    sizes = Sizes(1, 768, steps=1, batch=128, variant="alternating")
    program_of(rnnc.cells.get("joint_norm_lstm"), sizes, "H200")
    program, _ = lowered[0]
    assert any(isinstance(op, Steps) for op in program.ops)
    assert issued_together(program.ops) is program.ops


@pytest.mark.parametrize(("cell", "carried"), [("mingru", 1), ("lru", 2)])
@pytest.mark.parametrize("steps", [5000, 50_000])
def test_a_scan_needs_24_bytes_per_state_channel_and_tile(cell, carried, steps, lowered):
    """Beside inputs, results and what a backward reads; and a sum of each bias and param."""
    cell, sizes = rnnc.cells.get(cell), Sizes(head_dim=96, batch=5, steps=steps, variant="scan")
    program_of(cell, sizes, "H200")
    shape = rnnc.Shape(1, 96, 5, steps_like(cell, steps))
    plan = rnnc.plan_for(cell, shape, limits_of("H200"), "scan")
    channels, sums = 5 * 96, len(cell.bias_gates) + len(cell.params)
    weights = 2 * 96 * 96 * 2 * len(cell.input_gates) + 4096
    for (program, _), kernel in zip(lowered, (plan.forward, plan.backward), strict=True):
        each = 24 * carried + 4 * sums * (kernel.direction == "backward")
        needed = sum(op.nbytes for op in program.ops if isinstance(op, AllocateTogether))
        # What is alone has no piece of memory to share: bytes, in one axis.
        alone = [op for op in program.ops if isinstance(op, Allocate) and len(op.size) == 1]
        needed += sum(op.nbytes for op in alone)
        # A block that takes all steps of its channels hands maps on in shared memory.
        assert kernel.sequential or kernel.tiles(steps) * channels < needed
        assert needed <= kernel.tiles(steps) * channels * each + weights
        # No copy of wx: else only what has a value for each step of a unit, in the call's dtype.
        whole = [op for op in program.ops if isinstance(op, Allocate) and op.size[0] == steps]
        assert len(whole) <= (1 + len(cell.states) if kernel.direction == "forward" else 1)


@pytest.mark.parametrize(("cell", "products"), [("lstm", 2), ("sru", 1)])
def test_a_single_step_has_a_program(cell, products, monkeypatch):
    """One of a cell without R too: the library multiplies its x in float32."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    rnn = rnnc.RNN(cell, 64, 64, device="meta")
    call = call_of(
        rnn._settings(training=False), "cuda", False, False, Asked(single=True, given=True)
    )
    states = [torch.empty(1, 128, 64, device="meta") for _ in rnn.cell.states]
    tensors = Tensors(torch.empty(128, 64, device="meta"), states, rnn._weights_on(None))
    inputs = [tensor for tensor in tensors.flat() if tensor is not None]
    device = torch.device("cuda", describe(limits_of("H100")))
    with torch.no_grad():
        program, _ = lower(lambda: forward_of(call, tensors)[0], inputs, device)
    check_program(program, len(inputs))
    assert sum(type(op).__name__ == "Multiply" for op in program.ops) == products
    assert sum(type(op).__name__ == "Launch" for op in program.ops) == 1


def test_the_check_finds_what_is_wrong(lowered):
    program_of(*CASES["wavefront"][:2], "H200")
    program, inputs = lowered[0]
    ops = program.ops

    def without(name, number):
        place = [i for i, op in enumerate(ops) if type(op).__name__ == name][number]
        return (*ops[:place], *ops[place + 1 :])

    for name, number, why in (
        ("Allocate", -1, "memory that is gone"),  # no other tensor is made like the last one
        ("Fork", 0, "not forked"),
        ("Enter", 0, "did not enter"),
        ("Join", 0, "left behind"),
    ):
        program.ops = without(name, number)
        with pytest.raises(ProgramError, match=why):
            check_program(program, inputs)
    program.ops = ops
    check_program(program, inputs)
    one = next(op for op in ops if isinstance(op, Allocate))
    one.like = one.slot
    with pytest.raises(ProgramError, match="like one that is gone"):
        check_program(program, inputs)


def test_each_wait_of_a_wavefront_names_what_is_written_before(lowered):
    """In the program itself: a counter is written by a handover or by a kernel that comes first."""
    program_of(*CASES["wavefront"][:2], "H200")
    for program, _ in lowered:
        signals = set()
        for op in program.ops:
            for each in getattr(op, "ops", [op]):
                if type(each).__name__ == "Launch" and each.lane is not None:
                    fields = each.named(lambda slot, offset: (slot, offset))
                    names = dict(each.struct.addresses)
                    for word, place in fields.items():
                        if names[word] in ("done", "started"):
                            signals.add(place[0])
                if type(each).__name__ == "HandOver":
                    places = list(each.named(lambda slot, offset: (slot, offset)).values())
                    assert all(slot in signals for slot, _ in places[each.writes :])


def test_another_gpu_gets_another_program():
    h200, a100 = (program_of(rnnc.cells.lstm, Sizes(12, layers=4), gpu) for gpu in ("H200", "A100"))
    assert "other streams may start" in h200
    assert "other streams may start" not in a100


def test_a_described_gpu_keeps_its_number():
    h200, a100 = limits_of("H200"), limits_of("A100")
    assert describe(h200) == describe(limits_of("H200")) != describe(a100)
    assert torch.device("cuda", describe(a100)).index == describe(a100)


def test_a_call_that_no_program_holds_is_refused():
    x = torch.empty(3, device="meta")
    outside = torch.empty(3, device="meta")
    with pytest.raises(RuntimeError, match="no program"):
        lower(lambda: [x + outside], [x], torch.device("cuda", describe(limits_of("H200"))))


def test_tensors_without_memory_have_addresses_of_their_own():
    address_of = lowering._Addresses()
    tensors = [torch.empty(n, device="meta") for n in (1, 1000, 7)]
    spans = sorted((address_of(t), address_of(t) + t.nbytes) for t in tensors)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert all(begin % 512 == 0 for begin, _ in spans)
    assert address_of(tensors[1][4:]) == address_of(tensors[1]) + 16
