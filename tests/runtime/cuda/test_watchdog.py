"""The bound that a wait has: the environment variable, and where kernels read it."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
import rnnc
import torch
import torch.distributed as dist
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.errors import RnncError
from rnnc.runtime.call.requests import LayerBackward
from rnnc.runtime.call.tensors import ScanInputs, saved_of
from rnnc.runtime.cuda import kernels as cuda
from rnnc.runtime.cuda.launch import CallSizes
from rnnc.runtime.cuda.launchers import TiledLauncher
from rnnc.runtime.cuda.prepared import prepare
from rnnc.runtime.cuda.watchdog import VARIABLE, watchdog_bound


@pytest.fixture(autouse=True)
def _read_again():
    watchdog_bound.cache_clear()
    yield
    watchdog_bound.cache_clear()


@pytest.mark.parametrize(
    ("text", "bound"),
    [(None, 2 * 10**9), ("", 2 * 10**9), ("2", 2 * 10**9), ("0", 0), ("0.0", 0), ("1e-20", 1),
     ("0.25", 250_000_000), (" 30 ", 30 * 10**9)],
)  # fmt: skip
def test_the_variable_sets_nanoseconds(text, bound, monkeypatch):
    if text is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, text)
    assert watchdog_bound() == bound


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e10"])
def test_another_text_is_refused_by_name(text, monkeypatch):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(RnncError) as refused:
        watchdog_bound()
    lines = str(refused.value).splitlines()
    assert lines[:2] == ["RNNC_WATCHDOG_SECONDS", f"  found:  {text!r}"]
    assert lines[-1] == "  write:  RNNC_WATCHDOG_SECONDS=2"


def test_a_call_passes_it_to_both_directions(monkeypatch):
    """With real tensors on the CPU, and launches that only take notes."""
    monkeypatch.setenv(VARIABLE, "7")
    noted = []
    plan = plan_for(rnnc.cells.lstm, Shape(1, 64), limits_of("H200"), "block")
    monkeypatch.setattr(cuda, "on_device", lambda device: pytest.MonkeyPatch.context())
    monkeypatch.setattr(TiledLauncher, "run", lambda _, given, *__: noted.append(given.watchdog))
    forward, backward = (
        prepare(rnnc.cells.lstm, p, CallSizes(2, 1, 64), 0) for p in (plan.forward, plan.backward)
    )
    new, none = torch.zeros, [None, None]
    states = [new(2, 1, 64)] * 2
    inputs = ScanInputs(new(2, 3, 1, 64, 4), new(4, 1, 64, 64), None, states, None, [])
    done = cuda.forward(forward, inputs)
    saved = saved_of(inputs, done, again=False)
    cuda.Backward(backward, LayerBackward(saved, none, none)).run()
    assert noted == [7 * 10**9] * 2


@pytest.mark.parametrize("variant", ["cluster", "grid"])
def test_the_bound_is_not_compiled_in(variant):
    plan = plan_for(rnnc.cells.lstm, Shape(1, 256), limits_of("H200"), variant)
    source = cuda_source(rnnc.cells.lstm, plan)
    headers = dict(source.headers)
    for direction in DIRECTIONS:
        kernel = f"lib/kernels/{variant}_{direction}.cuh"
        assert f'#include "{kernel}"' in getattr(source, direction)
        assert "a.watchdog" in headers[kernel]
    assert "2000000000" not in "".join(headers.values())


def test_several_processes_wait_longer_than_torch_does(monkeypatch):
    """A late rank is torch's to report: its kernels may hold multiprocessors until then."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    assert watchdog_bound() == 1860 * 10**9  # no group tells its time-out
    watchdog_bound.cache_clear()
    options = SimpleNamespace(_timeout=timedelta(minutes=10))
    group = SimpleNamespace(_get_backend=lambda device: SimpleNamespace(options=options))
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", lambda: group)
    assert watchdog_bound() == 660 * 10**9
    watchdog_bound.cache_clear()
    monkeypatch.setenv(VARIABLE, "5")
    assert watchdog_bound() == 5 * 10**9
