"""Kernels that are compiled ahead of a measurement, in processes of their own."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import rnnc
from rnnc.bench import compile_pool
from rnnc.bench.compile_pool import CompilePool
from rnnc.bench.precompile import compile_shapes
from rnnc.codegen.cuda.kinds import variants
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape


@pytest.fixture
def compiled(monkeypatch):
    """What the workers of a pool, which are threads here, compile."""
    found = []

    class Threads(ThreadPoolExecutor):
        def __init__(self, workers, context):
            assert context.get_start_method() == "spawn"
            super().__init__(workers)

        def shutdown(self, **options):
            super().shutdown(**options)
            found.append(None)

    monkeypatch.setattr(compile_pool, "ProcessPoolExecutor", Threads)
    monkeypatch.setattr(compile_pool, "compile_quietly", lambda *asked: found.append(asked))
    return found


def test_what_is_compiled_ahead_is_compiled_once(compiled):
    shapes = [(rnnc.cells.lstm, Shape(12, 64, 16, 1024), False)]
    assert compile_shapes(shapes, limits_of("H200"), variants()) > 0
    assert compiled.pop() is None, "the workers ended"
    names = sorted(f"{p[1].kind} {p[1].direction}" for p in compiled if p)
    kinds = ["alternating", "block", "cluster", "grid"]
    wanted = [f"{kind} {direction}" for kind in kinds for direction in ("backward", "forward")]
    assert names == wanted, "auto's are two of the others"


@pytest.mark.parametrize(("dim", "heads", "orders"), [(64, 2, ("half",)), (4096, 1, (False, True))])
def test_both_directions_of_time_are_compiled_for_torch_s_precision(dim, heads, orders, compiled):
    """In one call where both fit the GPU, else in two."""
    cell = rnnc.cells.lstm
    compile_shapes([(cell, Shape(1, dim, dtype="float32"), True)], limits_of("H200"))
    shape = Shape(heads, dim, dtype="float32")
    plan = plan_for(cell, shape, limits_of("H200"), tf32=True)
    wanted = [plan.in_time(order) for order in orders]
    asked = {each[1] for each in compiled if each}
    assert asked == {kernel for each in wanted for kernel in (each.forward, each.backward)}


def test_a_pool_waits_for_what_it_was_given(compiled):
    cell = rnnc.cells.lstm
    plan = plan_for(cell, Shape(1, 64), limits_of("H200"))
    with CompilePool(1) as pool:
        pool.submit(cell, [plan.forward, plan.forward, plan.backward])
        assert pool.wait(cell, [plan.forward, plan.backward], math.inf)
        assert compiled == [(cell, plan.forward), (cell, plan.backward)]


def test_a_worker_compiles_in_a_process_of_its_own(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    plan = plan_for(rnnc.cells.elman, Shape(1, 16), limits_of("H200")).forward
    with CompilePool(1) as pool:
        pool.submit(rnnc.cells.elman, [plan])
        assert pool.wait(rnnc.cells.elman, [plan], math.inf)
    assert list(tmp_path.glob("elman*.cubin"))


def test_a_wait_for_a_late_kernel_ends(compiled, monkeypatch):
    cell, begun = rnnc.cells.lstm, threading.Event()
    plan = plan_for(cell, Shape(1, 64), limits_of("H200")).forward
    monkeypatch.setattr(compile_pool, "compile_quietly", lambda *_: begun.wait(10))
    with CompilePool(1) as pool:
        pool.submit(cell, [plan])
        assert not pool.wait(cell, [plan], time.monotonic() - 1)
        begun.set()
        pool.wait_for_all()
