"""Calls that are recorded once and replayed: operators of torch, launches, and what refuses."""

from __future__ import annotations

import ctypes
import random
from array import array
from contextlib import nullcontext
from itertools import combinations, pairwise

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.arguments import arguments_of, struct_around
from rnnc.runtime.cuda.driver import room
from rnnc.runtime.program import ops
from rnnc.runtime.program.compact import _packed, _Temporary
from rnnc.runtime.program.ops import Addressed
from rnnc.runtime.program.recorder import recording, refuse_recording
from rnnc.runtime.program.seen import Replays, forget_replays


def call(x, weight):
    """Views, copies, products in place, sums, and a tensor that is freed on the way."""
    rows = weight.permute(1, 0, 2).reshape(-1, weight.shape[2])
    y = x.new_empty(x.shape[0], rows.shape[0])
    torch.mm(x, rows.t(), out=y)
    y.add_(1)
    total = torch.cat([y, y * 2], 1).sum(0, dtype=torch.float64)
    return [y.view(x.shape[0], 2, -1), None, total.to(x.dtype)[1:], weight[0]]


class Noted(Addressed):
    """An operation on a tensor, if one is given: what a test does with a run and its address."""

    def __init__(self, do, tensor=None, order="", lane=None):
        super().__init__(array("q", [0 if tensor is None else tensor.data_ptr()]), (0,), lane)
        self.do, self.order = do, order

    def text(self, name):
        return "do what a test does"

    def __call__(self, running):
        self.do(running, self.filled(running)[0])


def add(do, tensor=None, order="", lane=None):
    """Add such an operation to the program that is recorded, if one is."""
    recorder = recording()
    if recorder is not None:
        recorder.add(Noted(do, tensor, order, lane))


def nothing(running, address):
    """What an operation does that is of no interest."""


class Counted:
    """How often a call computes, and how often it is replayed."""

    def __init__(self, compute, stream=0):
        self.compute, self.computed = compute, 0
        self.replays = Replays(lambda _: stream)

    def __call__(self, *tensors, key="key"):
        def compute():
            self.computed += 1
            return self.compute(*tensors)

        return self.replays.run(key, tensors, compute)


def like_call(*, aligned=True):
    """Tensors of new values and places."""
    weight = torch.randn(3, 2, 4).transpose(0, 1)
    return torch.randn(35)[3 if not aligned else 4 :][:20].view(5, 4), weight


def test_a_replay_gives_what_the_call_gives():
    run = Counted(call)
    for _ in range(4):
        tensors = like_call()
        found = run(*tensors)
        for got, wanted in zip(found, call(*tensors), strict=True):
            assert (got is None) == (wanted is None)
            if wanted is not None:
                torch.testing.assert_close(got, wanted, rtol=0, atol=0)
                assert got.stride() == wanted.stride()
        assert found[3].data_ptr() == tensors[1][0].data_ptr()
    assert run.computed == 1


def test_other_tensors_are_computed():
    run = Counted(call)
    for _ in range(2):
        run(*like_call())
    assert run.computed == 1
    x, weight = like_call()
    run(x.t().contiguous().t(), weight)  # other strides
    run(*like_call(aligned=False))
    freed = torch.randn(5, 4)
    freed.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError):
        run(freed, weight)
    assert run.computed == 4
    run(x, weight, key="another")
    assert run.computed == 5
    run(x, weight)
    assert run.computed == 5
    forget_replays()
    run(x, weight)
    assert run.computed == 6


def test_nothing_is_recorded_without_a_stream():
    run = Counted(call, stream=None)
    for _ in range(3):
        run(*like_call())
    assert run.computed == 3


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, _: [x * x.sum().item()],
        lambda x, _: (refuse_recording(), [x + 1])[1],
        lambda x, _: [x.view(torch.int32).sum()],
    ],
    ids=("a value that Python reads", "a refusal", "another dtype"),
)
def test_what_cannot_be_replayed_is_computed(compute):
    run = Counted(compute)
    for _ in range(3):
        tensors = like_call()
        torch.testing.assert_close(run(*tensors), compute(*tensors), rtol=0, atol=0)
    assert run.computed == 3


def test_tensors_that_share_memory_are_not_recorded():
    run = Counted(lambda x, y: [x + y])
    both = torch.randn(16)
    for _ in range(2):
        run(both[:12], both[4:])
        run(both[:8], both[:8], key="twice")
    assert run.computed == 4


def test_memory_is_freed_after_its_last_reader():
    peaks = []

    def watched(self, running):
        original(self, running)
        peaks.append(sum(t is not None for t in running.tensors))

    def chain(x):
        for _ in range(6):
            x = x + 1
        return [x]

    run = Counted(chain)
    run(torch.randn(4))
    with pytest.MonkeyPatch.context() as patch:
        original = ops.Operate.__call__
        patch.setattr(ops.Operate, "__call__", watched)
        run(torch.randn(4))
    assert run.computed == 1
    assert max(peaks) == 3  # the input, the last result and the one before it


def test_results_keep_their_shapes_and_temporaries_share_memory():
    written = []

    def read(tensor):
        """Report an operation that reads a tensor by its address."""
        add(lambda _, address: written.append(address), tensor)

    def compute(x):
        kept, spare = x.new_empty(6, 4), [x.new_empty(3) for _ in range(3)]
        for each in (kept, *spare):
            read(each)
        kept.view(4, 6).copy_(x.view(4, 6))
        free = x.new_empty(2, 12)
        read(free)
        return [kept.view(2, 12), kept, kept.view(24)[4:], free.view(4, 6), free.view(24)[12:]]

    run = Counted(compute)
    for _ in range(2):
        x = torch.randn(24)
        found, wanted = run(x), compute(x)
        for got, want in zip(found, wanted, strict=True):
            assert (got.shape, got.stride()) == (want.shape, want.stride())
            assert got.storage_offset() == want.storage_offset()
        for got, want in zip(found[:3], wanted[:3], strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert run.computed == 1
    kept, *spare, free = written
    assert [b - a for a, b in pairwise(spare)] == [512, 512]
    assert (kept, free) == (found[0].data_ptr(), found[3].data_ptr())
    assert found[3].data_ptr() + 48 == found[4].data_ptr()


class Beside:
    """A call that gives work to other streams; it notes where each tensor lies that is used."""

    def __init__(self):
        self.at = {}

    def use(self, name, tensor, lane=None):
        """Report an operation that uses a tensor by its address."""
        size = tensor.nbytes

        def do(_, begin):
            self.at[name] = range(begin, begin + size)

        add(do, tensor, lane=lane)

    def __call__(self, x):
        before, waits = x.new_empty(512), x.new_empty(512)
        part = waits[8:]
        self.use("before", before)
        lane = x.new_empty(512)
        add(nothing, order="fork")
        self.use("lane", lane, lane=7)
        self.use("waits", part, lane=8)
        if recording() is not None:
            recording().launched()
        for number in range(3):
            self.use(number, x.new_empty(512))
        add(nothing, order="join")
        after = x.new_empty(512)
        self.use("after", after)
        return [x + 1]


def overlap(one, other):
    return max(one.start, other.start) < min(one.stop, other.stop)


def test_what_other_streams_use_is_theirs_until_they_are_joined():
    call = Beside()
    run = Counted(call)
    for _ in range(2):
        run(torch.randn(4))
    assert run.computed == 1
    at = call.at
    for lane in ("lane", "waits"):
        assert not any(overlap(at[lane], at[number]) for number in range(3))
    # Where one stream uses memory after the other, they share it.
    assert overlap(at["after"], at["lane"]) or overlap(at["after"], at["waits"])
    assert overlap(at["before"], at["lane"])
    assert at[0] == at[1] == at[2]


def test_tensors_of_other_streams_are_freed_after_the_join():
    freed = []

    def compute(x):
        recorder = recording()
        lane = x + 1  # an allocation of its own, as an operator's result
        if recorder is None:
            return [x * 2 + 1]
        slot, _ = recorder.place(lane.data_ptr())

        def note(running, _):
            freed.append(running.tensors[slot] is None)

        add(nothing, order="fork")
        add(nothing, lane, lane=7)
        recorder.launched()
        y = x * 2
        add(note, order="join")
        z = y + 1
        add(note, z)
        return [z]

    run = Counted(compute)
    for _ in range(2):
        run(torch.randn(4))
    assert freed == [False, True]


@pytest.mark.parametrize("forked", [False, True])
def test_other_streams_are_forked_and_get_no_work_of_torch(forked):
    """Outside of a fork nothing waits for them; torch allocates on the caller's stream."""

    def compute(x):
        if recording() is not None and forked:
            add(nothing, order="fork")
            x + 1
            recording().launched()
            add(nothing, order="join")
        elif recording() is not None:
            add(nothing, x, lane=7)
        return [x + 1]

    run = Counted(compute)
    for _ in range(2):
        run(torch.randn(4))
    assert run.computed == 2


def test_a_replay_that_fails_undoes_what_it_began():
    done = []

    def compute(x):
        if recording() is None:
            done.append("computed")
            return [x + 1]
        for name in ("first", "second"):
            add(lambda running, _, name=name: running.undo.append(lambda: done.append(name)))
        add(fails)
        return [x + 1]

    def fails(*_):
        raise failure

    for error, wanted in ((ValueError, []), (torch.OutOfMemoryError, ["computed"])):
        failure = error("why")
        run = Counted(compute)
        run(torch.randn(4))
        done.clear()
        with pytest.raises(ValueError, match="why") if error is ValueError else nullcontext():
            run(torch.randn(4))
        assert done == ["second", "first", *wanted]


def test_which_words_of_a_struct_are_addresses():
    struct = struct_around("GridArguments", arguments_of(rnnc.cells.lru, "backward", False, False))
    numbers = array("q", range(ctypes.sizeof(struct) // 8))
    filled = struct.from_buffer(numbers)
    found = [numbers[word] for word, _ in struct.addresses]

    def pointers(value):
        for name, kind, *_ in value._fields_:
            field = getattr(value, name)
            if kind is ctypes.c_void_p:
                yield field
            elif isinstance(field, ctypes.Structure):
                yield from pointers(field)
            elif isinstance(field, ctypes.Array) and kind._type_ is ctypes.c_void_p:
                yield from field

    assert found == list(pointers(filled))
    assert len(found) == 2 + 3 + 3 * 2 + 1 + 2 * 2 + 2 + 1 + 2


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"heads": 2}], ids=str)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_replayed_module_launches_the_same_kernels(simulated_gpu, monkeypatch, cell, options):
    monkeypatch.setattr(room, "is_here", lambda _: True)
    rnn = rnnc.RNN(
        rnnc.cells.get(cell),
        32,
        64,
        num_layers=2,
        backend="simulated",
        layers="sequential",
        **options,
    )
    computed, record = [], Replays._record

    def noted(self, *arguments):
        computed.append(arguments[0])
        return record(self, *arguments)

    monkeypatch.setattr(Replays, "_record", noted)
    runs = []
    for _ in range(5):
        simulated_gpu.clear()
        y, _ = rnn(torch.randn(4, 2, 32))
        y.sum().backward()
        with torch.no_grad():
            rnn(torch.randn(4, 2, 32))
        rnn.zero_grad()
        runs.append(list(simulated_gpu))
    assert runs[0]
    assert all(run == runs[0] for run in runs)
    assert len(computed) == 3  # forward, backward, inference
    known = [k.replays for k in rnn._known_calls._entries.values()]
    assert all(each.program is not None for found in known for each in found._known.values())


def test_tensors_that_are_never_needed_at_once_share_their_place():
    generator = random.Random(7)
    for _ in range(50):
        tensors = []
        for slot in range(generator.randrange(2, 12)):
            first = generator.randrange(20)
            last = first + generator.randrange(6)
            tensors.append(_Temporary(slot, 512 * generator.randrange(1, 9), first, last))
        tensors.sort(key=lambda each: each.size, reverse=True)
        offsets, size = _packed(tensors)
        for one, other in combinations(tensors, 2):
            begin, then = offsets[one.slot], offsets[other.slot]
            apart = begin + one.size <= then or then + other.size <= begin
            assert apart or one.last < other.first or other.last < one.first
        assert size == max(offsets[each.slot] + each.size for each in tensors)
        most = max(
            sum(each.size for each in tensors if each.first <= entry <= each.last)
            for entry in range(26)
        )
        assert most <= size <= sum(each.size for each in tensors)
    alone = [_Temporary(slot, 512, 2 * slot, 2 * slot + 1) for slot in range(5)]
    assert _packed(alone)[1] == 512


def test_nothing_is_freed_while_two_streams_run():
    """What one stream frees could become the other's."""
    order = []

    def compute(x):
        first = x * 2
        add(lambda *_: order.append("split"), order="split")
        second = first + 1
        total = second.sum()
        del first, second
        other = x.new_empty(x.shape).copy_(x).sum()
        add(lambda *_: order.append("unsplit"), order="unsplit")
        return [total, other]

    run, x = Counted(compute), torch.arange(8.0)
    run(x)
    free = ops.Free.__call__

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ops.Free,
            "__call__",
            lambda self, running: (order.append("free"), free(self, running)),
        )
        found = run(x)
    assert run.computed == 1
    assert order == ["split", "unsplit", "free"]
    assert [t.item() for t in found] == [64, 28]


def test_a_new_tensor_is_made_like_one_that_is_there_for_as_long():
    constant = torch.zeros(5)

    def run(x, weight):
        recorder = recording()
        if recorder is not None:
            recorder.keep(constant)
        shapes = (2, 3), (5,), (4,), (6,), (4,), (6,)
        new = [*map(x.new_empty, shapes), weight.new_empty(3, 2)]
        for number, tensor in enumerate(new):
            tensor.fill_(number)
        freed = {3, 5}
        return [tensor for number, tensor in enumerate(new) if number not in freed]

    counted = Counted(run)
    x, weight = torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64).t()
    wanted = counted(x, weight)
    (known,) = counted.replays._known.values()
    made = [op for op in known.program.ops if isinstance(op, ops.Allocate)]
    four = made[2].slot
    # The caller's x, a constant, and a result; never a tensor that is freed before the end.
    assert [op.like for op in made] == [0, -1, None, None, four, None, None]
    again = counted(torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64).t())
    assert counted.computed == 1
    for new, old in zip(again, wanted, strict=True):
        assert torch.equal(new, old)
        assert (new.dtype, new.stride()) == (old.dtype, old.stride())
