"""What an alternating plan launches and captures, and where, with kernels that only take notes."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.alternating.plan import AlternatingPlan
from rnnc.codegen.shape import DIRECTIONS
from rnnc.runtime.cuda.alternating import products as alternating_products
from rnnc.runtime.cuda.alternating import run as alternating
from rnnc.runtime.cuda.alternating import work as alternating_work
from rnnc.runtime.cuda.alternating.run import AlternatingLauncher
from rnnc.runtime.cuda.alternating.work import Work
from rnnc.runtime.cuda.arguments import arguments_of
from rnnc.runtime.cuda.launch import CallSizes

PLANS = {
    direction: AlternatingPlan(direction=direction, arch="sm_90", dtype="float32")
    for direction in DIRECTIONS
}
CHUNK = PLANS["forward"].chunk
STREAM, CAPTURING = 5, 9
CPU = torch.device("cpu")


class Product:
    """Notes each product, on the stream that it is given."""

    log: list

    def __init__(self, kind, device):
        assert kind.products == 1

    def __call__(self, first, second, to, stream, workspace, size):
        assert size == 64
        self.log.append(("product", stream))


@pytest.fixture
def log(monkeypatch):
    """All that is launched, captured, added to a graph and replayed, in order."""
    found = []

    def load(cell, plan, name, device):
        def kernel(grid, arguments, stream):
            found.append((name.removeprefix("rnnc_"), stream))

        return kernel

    def captured(launch):
        launch(CAPTURING)
        return SimpleNamespace(handle=11)

    @cache
    def workspace_of(device, stream):
        return torch.empty(64, dtype=torch.uint8)

    class Chain:
        def add(self, kernel, grid, arguments, overlapping=False):
            assert not overlapping
            kernel(grid, arguments, "node")

        def include(self, handle):
            found.append(("copy", handle))

        def graph(self):
            found.append("made")
            name = f"graph {found.count('made')}"
            return SimpleNamespace(launch=lambda stream: found.append((name, stream)))

    monkeypatch.setattr(Product, "log", found, raising=False)
    for name, fake in {
        "load_kernel": load,
        "chain": lambda: nullcontext(Chain()),
        "workspace_bytes": lambda device: 64,
        "lasting_workspace": workspace_of,
        "device_tensor": lambda size, dtype, device, stream: torch.empty(size, dtype=dtype),
        "never_unload": lambda kernel: found.append("for good"),
    }.items():
        monkeypatch.setattr(alternating_work, name, fake)
    monkeypatch.setattr(alternating_products, "ByGemmEx", Product)
    monkeypatch.setattr(alternating_products, "captured", captured)
    return found


def work(direction="forward", lasting=True):
    return Work(
        *(rnnc.cells.elman, PLANS[direction], torch.float32, CPU, CallSizes(2, 1, 3)),
        *(STREAM, lasting),
    )


def run(made, steps):
    arguments = arguments_of(rnnc.cells.elman, made.direction, False, False)()
    made.run(arguments, steps, torch.randn(1, 1, 3, 3))


def test_whole_chunks_are_a_graph_made_once_and_replayed(log):
    made = work()
    run(made, 2 * CHUNK + 1)
    step = [("copy", 11), ("forward_step", "node")]
    wanted = [
        ("product", STREAM),  # for the library to load its kernels
        ("product", CAPTURING),
        *(*step * CHUNK, ("advance", "node"), "made"),
        *(("forward_begin", STREAM), *[("graph 1", STREAM)] * 2),
        *(("product", STREAM), ("forward_step", STREAM)),
    ]
    assert log == wanted
    log.clear()
    run(made, CHUNK)
    assert log == [("forward_begin", STREAM), ("graph 1", STREAM)]


def test_the_backward_multiplies_behind_its_map_and_has_an_end(log):
    made = work("backward")
    run(made, 1)
    wanted = [
        *(("backward_begin", STREAM), ("backward_step", STREAM), ("product", STREAM)),
        ("backward_end", STREAM),
    ]
    assert log == wanted


def test_long_sequences_take_long_graphs_first(log):
    made = work()
    run(made, 9 * CHUNK)
    assert sorted(made._graphs) == [CHUNK, 8 * CHUNK]
    assert log[-2:] == [("graph 1", STREAM), ("graph 2", STREAM)]


def test_within_a_caller_s_capture_steps_go_into_the_caller_s_graph(log):
    made = work(lasting=False)
    kernels = len(PLANS["forward"].kernel_names)
    assert log == ["for good"] * kernels
    run(made, CHUNK)
    assert "made" not in log
    assert {entry[1] for entry in log[kernels:]} == {STREAM}
    assert log.count(("forward_step", STREAM)) == CHUNK


def test_a_capture_that_another_thread_ended_is_made_again(log, monkeypatch):
    once = alternating_products.captured
    tries = []

    def ended(launch):
        tries.append(True)
        if len(tries) < 3:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        return once(launch)

    monkeypatch.setattr(alternating_products, "captured", ended)
    made = work()
    run(made, CHUNK)
    assert len(tries) == 3
    assert log[-1] == ("graph 1", STREAM)


def test_steps_that_cannot_be_captured_are_launched_and_it_is_said(log, monkeypatch):
    def never(launch):
        raise RuntimeError("cudaErrorStreamCaptureInvalidated")

    monkeypatch.setattr(alternating_products, "captured", never)
    made = work()
    with pytest.warns(RuntimeWarning, match="one by one.*Invalidated"):
        run(made, CHUNK)
    assert log.count(("forward_step", STREAM)) == CHUNK
    assert not made._graphs


def test_an_interrupt_in_a_capture_leaves_no_graph(log, monkeypatch):
    once = alternating_products.captured

    def interrupted(launch):
        raise KeyboardInterrupt

    monkeypatch.setattr(alternating_products, "captured", interrupted)
    made = work()
    with pytest.raises(KeyboardInterrupt):
        run(made, CHUNK)
    assert not made._graphs
    monkeypatch.setattr(alternating_products, "captured", once)
    log.clear()
    run(made, CHUNK)
    assert log[-1] == ("graph 1", STREAM)


def test_bytes_are_counted(log):
    made = work()
    tensors = [made._product._workspace, *made._states, *made._buffers.values()]
    tensors += [*made._product._weights, *made._product.factors, *made._product.operands]
    assert made.nbytes > sum(t.nbytes for t in tensors)
    assert made.nbytes - sum(-(-t.nbytes // 512) * 512 for t in tensors) == (
        64 - 512 + 9 * CHUNK * 2 * alternating_work._NODE_BYTES
    )


@pytest.fixture
def calls(log, monkeypatch):
    """Runs a call on a stream, and says which works there are."""
    state = {"stream": STREAM, "capturing": False}
    made = []
    monkeypatch.setattr(
        torch._C, "_cuda_getCurrentRawStream", lambda _: state["stream"], raising=False
    )
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state["capturing"])

    class Noted(Work):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            made.append(self)

    monkeypatch.setattr(alternating, "Work", Noted)

    def call(stream=STREAM, rows=2, capturing=False, mode=torch.no_grad, tf32=False):
        state.update(stream=stream, capturing=capturing)
        with mode():
            arguments = arguments_of(rnnc.cells.elman, "forward", False, False)()
            like, R = torch.empty(0), torch.randn(1, 1, 3, 3)
            sizes = CallSizes(rows, 1, 3)
            plan = replace(PLANS["forward"], tf32=tf32)
            launcher = AlternatingLauncher(rnnc.cells.elman, plan, sizes, 0)
            launcher.run(arguments, R, like, 3)
        return made

    rnnc.free_memory()
    yield call
    rnnc.free_memory()


def test_works_are_kept_by_size_and_stream(calls):
    for _ in range(2):
        calls()
    assert len(calls(rows=4)) == 2
    first, _, other = calls(stream=6)
    assert first._product._workspace is not other._product._workspace
    assert calls(rows=9)[-1]._product._workspace is first._product._workspace  # one a stream
    rnnc.free_memory()
    assert len(calls()) == 5


def test_a_capture_s_work_is_not_kept(calls):
    assert len(calls(capturing=True)) == 1
    assert len(calls(capturing=True)) == 2
    assert alternating._works.nbytes == 0


@pytest.mark.parametrize("setting", [True, False])
def test_another_precision_is_another_work(calls, setting):
    calls()
    assert len(calls(tf32=setting)) == 1 + setting


def test_two_threads_take_turns_with_a_work(calls, monkeypatch):
    calls()
    inside, most, lock = [], [], threading.Lock()

    def run_alone(self, *_):
        with lock:
            inside.append(True)
            most.append(len(inside))
        threading.Event().wait(0.02)
        with lock:
            inside.pop()

    monkeypatch.setattr(Work, "run", run_alone)
    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4
