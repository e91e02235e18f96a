"""Kernels that belong to no cell: compiled once, by a thread if that has begun. No GPU."""

from __future__ import annotations

import threading

import pytest
import rnnc
from rnnc.codegen.render import Unit
from rnnc.runtime.cuda import load, nvrtc


@pytest.fixture
def cache(tmp_path, monkeypatch, compiler):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def unit_named(name, code="__global__ void kernel() {}"):
    return Unit(name=name, code=code, headers=())


def test_what_a_thread_has_begun_is_compiled_once(cache, monkeypatch):
    compiled, compile_ = [], nvrtc._compiled

    def noted(*given):
        compiled.append(threading.current_thread())
        return compile_(*given)

    monkeypatch.setattr(nvrtc, "_compiled", noted)
    unit = unit_named("begun")
    load.begin_to_compile(unit, "sm_90")
    assert load._begun(unit, "sm_90").result()
    assert not cache.exists()  # the thread writes nothing
    assert load.compile_unit(unit, "sm_90").cubin
    assert len(list(cache.glob("*.cubin"))) == 1
    load.begin_to_compile(unit, "sm_90")
    assert len(compiled) == 1
    assert compiled[0] is not threading.main_thread()


def test_what_is_kept_is_not_compiled_again(cache, monkeypatch):
    unit = unit_named("kept")
    load.compile_unit(unit, "sm_90")
    monkeypatch.setattr(load, "_begun", None)
    load.begin_to_compile(unit, "sm_90")


def test_an_error_of_the_thread_is_the_callers(cache):
    unit = unit_named("wrong", "no code")
    load.begin_to_compile(unit, "sm_90")
    for _ in range(2):
        with pytest.raises(rnnc.CompileError, match="NVRTC refused"):
            load.compile_unit(unit, "sm_90")
