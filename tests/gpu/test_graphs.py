"""The CUDA graphs that alternating plans keep, next to all other work of torch on a GPU."""

from __future__ import annotations

import gc
import os
import threading
from contextlib import contextmanager

import pytest
import rnnc
import torch
from rnnc import Gate, State, gate, sigmoid, tanh
from rnnc.runtime.cuda import load, ready
from rnnc.runtime.cuda.alternating import run as alternating
from rnnc.runtime.cuda.alternating import work as alternating_work
from rnnc.runtime.cuda.driver import cublas, matmul
from rnnc.runtime.cuda.prepared import prepare

# A whole graph of steps and a rest; the second is multiplied by the library.
DTYPES = (torch.bfloat16, torch.float32)
SHAPE = (5, 40, 2, 96)
MIB = 2**20
ALTERNATING = {"variant": "alternating"}


@rnnc.cell
def two_sources(
    h: State, c: State, *, i: Gate = gate(source=("h", "c")), f: Gate = gate(source=("h", "c"))
):
    """Its matrices of a source do not lie side by side."""
    c = sigmoid(f) * c + tanh(i)
    return sigmoid(i) * tanh(c), c


@pytest.fixture(autouse=True)
def nothing_kept():
    """Every test captures anew."""
    rnnc.free_memory()
    yield
    torch.cuda.synchronize()
    rnnc.free_memory()


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def run(inputs, cell):
    with torch.no_grad():
        states, last = rnnc.scan(
            cell, inputs.wx, inputs.R, inputs.b, inputs.states, variant="alternating"
        )
    return [s.clone() for s in (*states, *last)]


# --- Modes of the caller -------------------------------------------------------------------------

MODES = {
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cuda", torch.bfloat16),
    "deterministic": deterministic,
    "detect_anomaly": torch.autograd.detect_anomaly,
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_first_call_in_any_mode_serves_training(dtype, mode, draw, seeds_for, results, same_bits):
    cell = rnnc.cells.lstm
    inputs = draw(cell, SHAPE, dtype)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, **ALTERNATING)
    rnnc.free_memory()
    with MODES[mode]():
        run(inputs, cell)
    same_bits(results(cell, inputs, seeds, **ALTERNATING), wanted)
    if mode not in ("inference", "no_grad", "autocast"):
        rnnc.free_memory()
        with MODES[mode]():
            same_bits(results(cell, inputs, seeds, **ALTERNATING), wanted)


def test_the_caller_s_own_graph_after_a_call_in_inference_mode(draw):
    with torch.inference_mode():
        run(draw(rnnc.cells.gru, SHAPE, torch.float32), rnnc.cells.gru)
    graph, out = torch.cuda.CUDAGraph(), torch.zeros(1000, device="cuda")
    with torch.cuda.graph(graph):
        out.copy_(torch.randn(1000, device="cuda"))
    graph.replay()
    assert out.std() > 0.5


# --- Memory and the library's workspace ----------------------------------------------------------


def test_others_memory_is_not_written_once_torch_gave_its_workspaces_back(
    draw, seeds_for, results, same_bits
):
    cell, shape = rnnc.cells.lstm, (16, 70, 1, 512)
    inputs = draw(cell, shape, torch.float32)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, **ALTERNATING)
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    others = [torch.full((8 * MIB,), i, dtype=torch.uint8, device="cuda") for i in range(64)]
    for _ in range(3):
        same_bits(results(cell, inputs, seeds, **ALTERNATING), wanted)
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
    assert all(bool((other == i).all()) for i, other in enumerate(others))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_caller_s_graph_of_a_product_replays_before_and_after(dtype, draw, same_bits):
    a, b = (torch.randn(64, 4096, device="cuda", dtype=dtype) for _ in range(2))
    graph, product = torch.cuda.CUDAGraph(), torch.empty(64, 64, device="cuda", dtype=dtype)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.mm(a, b.T, out=product)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        torch.mm(a, b.T, out=product)

    def replayed():
        product.fill_(torch.nan)
        graph.replay()
        return {"product": product.clone()}

    wanted, ours = replayed(), {}
    for turn in range(3):
        for dim in (96, 100, 384):
            if not turn:
                ours[dim] = draw(rnnc.cells.lstm, (16, 70, 1, dim), dtype)
                ours[dim] = ours[dim], run(ours[dim], rnnc.cells.lstm)
            inputs, first = ours[dim]
            for got, want in zip(run(inputs, rnnc.cells.lstm), first, strict=True):
                assert torch.equal(got, want)
            same_bits(replayed(), wanted)


def test_two_streams_do_not_share_a_workspace(draw, seeds_for, results, same_bits):
    """Two of torch's streams may replay at once, sixty times over."""
    cell = rnnc.cells.lstm
    calls = [draw(cell, (16, 40, 1, dim), torch.float32) for dim in (512, 640)]
    seeds = [seeds_for(cell, inputs) for inputs in calls]
    both = list(zip(calls, seeds, strict=True))
    wanted = [results(cell, *call, **ALTERNATING) for call in both]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    found = []
    for _ in range(15):
        for stream, call in zip(streams, both, strict=True):
            with torch.cuda.stream(stream):
                found.append(results(cell, *call, **ALTERNATING))
    torch.cuda.synchronize()
    for turn, got in enumerate(found):
        same_bits(got, wanted[turn % 2])


# --- torch's own graphs --------------------------------------------------------------------------


class Model(torch.nn.Module):
    """A recurrent layer between two others."""

    def __init__(self, variant, dim, dtype):
        super().__init__()
        options = {"device": "cuda", "dtype": dtype}
        self.inner = torch.nn.Linear(8, 8, **options)
        self.rnn = rnnc.RNN(rnnc.cells.lstm, 8, dim, variant=variant, **options)
        self.outer = torch.nn.Linear(dim, 3, **options)

    def forward(self, x):
        y, _ = self.rnn(self.inner(x))
        return self.outer(y)


def trained(model, call, x, seed):
    """Output and gradients of a training step, by name."""
    model.zero_grad(set_to_none=True)
    y = call(x)
    y.backward(seed)
    found = {"y": y.detach().clone()}
    return found | {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of much that is its own
@pytest.mark.parametrize(
    "options", [{"backend": "cudagraphs"}, {"mode": "reduce-overhead"}], ids=str
)
@pytest.mark.parametrize(
    ("variant", "dim", "dtype"),
    [
        ("block", 64, torch.bfloat16),
        ("cluster", 256, torch.bfloat16),
        ("grid", 512, torch.bfloat16),
        ("alternating", 64, torch.bfloat16),
        ("alternating", 64, torch.float32),
    ],
    ids=str,
)
def test_compiled_with_graphs_of_torch_s(variant, dim, dtype, options, needs_plan):
    needs_plan(rnnc.cells.lstm, 1, dim, 4, dtype, variant)
    torch._dynamo.reset()
    model = Model(variant, dim, dtype)
    compiled = torch.compile(model, **options)
    eager = {}
    # Warm-up, recording and replays, on new data; eager calls in between.
    for turn in range(6):
        x = torch.randn(40, 4, 8, device="cuda", dtype=dtype)
        seed = torch.randn(40, 4, 3, device="cuda", dtype=dtype)
        torch.compiler.cudagraph_mark_step_begin()
        got = trained(model, compiled, x, seed)
        eager = trained(model, model, x, seed)
        for name, want in eager.items():
            scale = want.float().abs().max().clamp(min=1e-3)
            error = ((got[name].float() - want.float()).abs().max() / scale).item()
            assert error < (0.03 if dtype == torch.bfloat16 else 1e-4), (turn, name, error)
        with torch.no_grad():
            torch.compiler.cudagraph_mark_step_begin()
            compiled(x)
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_gate_of_two_sources_is_captured(dtype, draw, seeds_for, results, same_bits):
    inputs, others = (draw(two_sources, SHAPE, dtype) for _ in range(2))
    seeds = seeds_for(two_sources, inputs)
    wanted = results(two_sources, others, seeds, **ALTERNATING)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = results(two_sources, inputs, seeds, **ALTERNATING)
    with torch.no_grad():
        for mine, other in zip(inputs.named().values(), others.named().values(), strict=True):
            mine.copy_(other)
    graph.replay()
    same_bits(captured, wanted)


def forget_kernels():
    rnnc.free_memory()
    for cached in (ready.ready_for, prepare, load.load_kernel, load._load_module):
        cached.cache_clear()
    gc.collect()


def test_a_graph_outlives_the_memory_of_its_kernels(
    variant, shape, draw, seeds_for, results, same_bits
):
    cell = rnnc.cells.lstm
    inputs = draw(cell, shape, torch.bfloat16, variant)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant=variant)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = results(cell, inputs, seeds, variant=variant)
    # Other kernels may take the place of those that are unloaded.
    forget_kernels()
    for other in ("gru", "elman", "slstm"):
        found = rnnc.cells.get(other)
        given = draw(found, shape, torch.bfloat16, variant)
        results(found, given, seeds_for(found, given), variant=variant)
    for value in captured.values():
        value.fill_(torch.nan)
    graph.replay()
    same_bits(captured, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_first_call_of_all_may_be_captured(
    variant, shape, dtype, draw, seeds_for, results, same_bits
):
    """It loads kernels and, of the library, makes a handle."""
    cell = rnnc.cells.gru
    inputs = draw(cell, shape, dtype, variant)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant=variant)
    torch.cuda.synchronize()
    forget_kernels()
    cublas._made.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = results(cell, inputs, seeds, variant=variant)
    graph.replay()
    same_bits(captured, wanted)


# --- Errors, interrupts and threads --------------------------------------------------------------


def draws_numbers(errors):
    try:
        torch.randn(1000, device="cuda").sum().item()
    except Exception as error:
        errors.append(error)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("at", [0, 1, 17])
@pytest.mark.parametrize("forward", [True, False])
def test_an_interrupt_inside_a_capture(
    forward, at, dtype, draw, seeds_for, results, same_bits, monkeypatch
):
    cell = rnnc.cells.lstm
    inputs = draw(cell, SHAPE, dtype)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, **ALTERNATING)
    rnnc.free_memory()
    torch.manual_seed(7)
    numbers = torch.randn(10, device="cuda")
    one, calls = alternating_work.Work._one, []

    def interrupted(work, number, *more):
        if (work._plan.direction == "forward") == forward:
            calls.append(number)
            if len(calls) == at + 1:
                raise KeyboardInterrupt
        one(work, number, *more)

    with monkeypatch.context() as patch:
        patch.setattr(alternating_work.Work, "_one", interrupted)
        with pytest.raises(KeyboardInterrupt):
            results(cell, inputs, seeds, **ALTERNATING)
    assert len(calls) == at + 1
    torch.manual_seed(7)
    assert torch.equal(torch.randn(10, device="cuda"), numbers)
    errors = []
    thread = threading.Thread(target=draws_numbers, args=(errors,))
    thread.start()
    thread.join()
    assert not errors
    torch.cuda.synchronize()
    torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    same_bits(results(cell, inputs, seeds, **ALTERNATING), wanted)


@pytest.mark.parametrize("at", [0, 1])
def test_an_interrupt_where_the_library_s_product_is_captured(
    at, draw, seeds_for, results, same_bits, monkeypatch
):
    """Of the products in a call, the second is captured."""
    cell = rnnc.cells.lstm
    inputs = draw(cell, SHAPE, torch.float32)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, **ALTERNATING)
    rnnc.free_memory()
    multiply, calls = matmul.ByGemmEx.__call__, []

    def interrupted(product, *operands):
        calls.append(True)
        if len(calls) == 2 and not at:
            raise KeyboardInterrupt
        multiply(product, *operands)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(matmul.ByGemmEx, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            results(cell, inputs, seeds, **ALTERNATING)
    torch.cuda.synchronize()  # the driver refuses it while any stream captures
    assert torch.randn(10, device="cuda").isfinite().all()
    same_bits(results(cell, inputs, seeds, **ALTERNATING), wanted)


def test_a_thread_that_waits_for_the_device_meanwhile(draw):
    """A graph of steps that multiply themselves is built without a capture."""
    errors, done = [], threading.Event()

    def waiting():
        while not done.is_set():
            try:
                torch.cuda.synchronize()
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=waiting)
    thread.start()
    for dim in range(40, 80):
        run(draw(rnnc.cells.elman, (3, 33, 1, dim), torch.bfloat16), rnnc.cells.elman)
    done.set()
    thread.join()
    assert not errors, errors[:1]


def test_a_thread_that_draws_numbers_meanwhile(draw):
    errors, done = [], threading.Event()

    def drawing():
        while not done.is_set():
            draws_numbers(errors)

    thread = threading.Thread(target=drawing)
    thread.start()
    for dim in range(40, 80):
        for dtype in DTYPES:
            run(draw(rnnc.cells.elman, (3, 33, 1, dim), dtype), rnnc.cells.elman)
    done.set()
    thread.join()
    assert not errors, errors[:1]


def test_a_thread_that_captures_meanwhile(draw):
    """Its capture forbids allocations to every thread; ours are no harm to it."""
    errors, done = [], threading.Event()

    def capturing():
        x = torch.zeros(1000, device="cuda")
        while not done.is_set():
            graph = torch.cuda.CUDAGraph()
            try:
                # Without torch.cuda.graph, which waits for the device.
                with torch.cuda.stream(torch.cuda.Stream()):
                    x.zero_()
                    graph.capture_begin()
                    for _ in range(100):
                        x.add_(1)
                    graph.capture_end()
                    graph.replay()
                    assert bool((x == 100).all())
            except Exception as error:
                errors.append(error)
                return

    given = [draw(rnnc.cells.elman, (3, 33, 1, dim), torch.float32) for dim in range(40, 60)]
    wanted = [run(inputs, rnnc.cells.elman) for inputs in given]
    rnnc.free_memory()
    torch.cuda.synchronize()
    thread = threading.Thread(target=capturing)
    thread.start()
    try:
        # What torch itself allocates must be there: its allocator has no such leave.
        got = [run(inputs, rnnc.cells.elman) for inputs in given]
        rnnc.free_memory()
    finally:
        done.set()
        thread.join()
    assert not errors, errors[:1]
    for ours, theirs in zip(got, wanted, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("own_streams", [True, False])
def test_threads_that_meet_new_sizes_at_once(dtype, own_streams, draw):
    dims = [50 + 7 * i for i in range(6)]
    given = [draw(rnnc.cells.lstm, (4, 70, 1, dim), dtype) for dim in dims]
    wanted = [run(inputs, rnnc.cells.lstm) for inputs in given]
    torch.cuda.synchronize()
    rnnc.free_memory()
    together, failed = threading.Barrier(4), []

    def work(first):
        stream = torch.cuda.Stream() if own_streams else torch.cuda.current_stream()
        try:
            with torch.cuda.stream(stream):
                for turn in range(len(dims)):
                    together.wait(60)
                    at = (first + turn * (1 + first % 2)) % len(dims)
                    got = run(given[at], rnnc.cells.lstm)
                    stream.synchronize()
                    if not all(torch.equal(a, b) for a, b in zip(got, wanted[at], strict=True)):
                        failed.append(dims[at])
        except Exception as error:
            failed.append(error)
            together.abort()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[:1]


# --- What is kept --------------------------------------------------------------------------------


def free_bytes():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


@pytest.mark.skipif(
    "PYTEST_XDIST_WORKER" in os.environ,
    reason="reads the device's free memory, which other processes change: run without JOBS",
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_kept_is_bounded_and_freed(dtype, draw, monkeypatch):
    monkeypatch.setenv("RNNC_KEPT_SIZE", "200")
    cell = rnnc.cells.lstm
    for _ in "loaded", "measured":  # modules stay: the first turn loads those of every size
        rnnc.free_memory()
        gc.collect()
        before = free_bytes()
        for rows in range(2, 34):
            run(draw(cell, (rows, 33, 1, 1024), dtype), cell)
        gc.collect()
    held = before - free_bytes()
    assert 10 * MIB < held < 260 * MIB, held / MIB
    assert alternating._works.nbytes <= 200 * MIB
    rnnc.free_memory()
    assert before - free_bytes() < 30 * MIB


def test_freed_while_it_runs(draw):
    cell = rnnc.cells.lstm
    inputs = draw(cell, (16, 600, 1, 512), torch.float32)
    wanted = run(inputs, cell)
    for _ in range(5):
        got = run(inputs, cell)
        rnnc.free_memory()
        # Whoever gets the memory next writes all of it.
        torch.full((256 * MIB,), 255, dtype=torch.uint8, device="cuda")
        for a, b in zip(got, wanted, strict=True):
            assert torch.equal(a, b)


def test_freed_from_another_thread(draw):
    done, errors = threading.Event(), []

    def freeing():
        try:
            while not done.is_set():
                rnnc.free_memory()
        except Exception as error:
            errors.append(error)

    given = draw(rnnc.cells.gru, (4, 70, 1, 96), torch.float32)
    wanted = run(given, rnnc.cells.gru)
    thread = threading.Thread(target=freeing)
    thread.start()
    try:
        found = [run(given, rnnc.cells.gru) for _ in range(30)]
    finally:
        done.set()
        thread.join()
    assert not errors
    for got in found:
        assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
