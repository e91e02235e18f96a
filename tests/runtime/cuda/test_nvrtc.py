"""NVRTC and its cache: broken entries, many processes, errors, machines without CuPy. No GPU."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.derive import derive
from rnnc.codegen.render import render
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda import nvrtc
from rnnc.runtime.cuda.driver import device
from rnnc.runtime.cuda.driver.device import cupy_nvrtc, nvrtc_version
from rnnc.runtime.cuda.nvrtc import compile_cuda, compile_flags, ptx_of


@pytest.fixture
def cache(tmp_path, monkeypatch):
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def source_of(name="elman", dtype="bfloat16", variant="alternating"):
    cell = rnnc.cells.get(name)
    shape = Shape(heads=2, head_dim=16, dtype=dtype)
    return render(derive(cell), plan_for(cell, shape, limits_of("A100"), variant).forward)


def small_source():
    """A kernel that compiles at once, where only the entry in the cache matters."""
    code = 'extern "C" __global__ void rnnc_forward_step(float* x) { x[threadIdx.x] += 1; }'
    return dataclasses.replace(source_of(), code=code)


def entries(cache):
    return sorted(path for path in cache.iterdir() if path.suffix == ".cubin")


def refuse_to_compile(monkeypatch):
    def refuse(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(nvrtc, "_compiled", refuse)


def test_what_is_compiled_once_is_found_again(cache, monkeypatch):
    first = compile_cuda(source_of(), "sm_80")
    refuse_to_compile(monkeypatch)
    assert compile_cuda(source_of(), "sm_80") == first
    assert first.cubin.startswith(b"\x7fELF")
    assert first.arch == "sm_80"
    assert "rnnc_forward_step" in first.log
    assert all(report.registers > 0 for report in first.reports.values())
    assert [path.name.split("-")[0] for path in entries(cache)] == ["elman"]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda content: b"",
        lambda content: b"not a binary",
        lambda content: content[:-100],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: b"{}\n" + content.partition(b"\n")[2],
        lambda content: b"[1]\n" + content.partition(b"\n")[2],
    ],
    ids=["empty", "foreign", "short", "one bit", "no fields", "a list"],
)
def test_a_broken_entry_is_made_again(cache, break_it, monkeypatch):
    first = compile_cuda(small_source(), "sm_80")
    (path,) = entries(cache)
    path.write_bytes(break_it(path.read_bytes()))
    assert compile_cuda(small_source(), "sm_80").cubin == first.cubin
    refuse_to_compile(monkeypatch)
    assert compile_cuda(small_source(), "sm_80").cubin == first.cubin


def test_names_depend_on_all_that_makes_the_binary(cache, monkeypatch):
    source = source_of()
    compile_cuda(source, "sm_80")
    compile_cuda(source, "sm_90a")
    compile_cuda(source_of(dtype="float16"), "sm_80")
    compile_cuda(dataclasses.replace(source, code=source.code + "\n// changed"), "sm_80")
    (name, text), *rest = source.headers
    changed = ((name, text + "\n// changed"), *rest)
    compile_cuda(dataclasses.replace(source, headers=changed), "sm_80")
    monkeypatch.setattr(nvrtc, "_FLAGS", (*nvrtc._FLAGS, "--use_fast_math"))
    compile_cuda(source, "sm_80")
    assert len(entries(cache)) == 6


def test_another_compiler_is_another_entry(cache, monkeypatch):
    compile_cuda(small_source(), "sm_80")

    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: "wheel 99.0.1")
    compile_cuda(small_source(), "sm_80")
    assert len(entries(cache)) == 2


def test_only_short_dtypes_give_up_exact_division():
    fast = {"--prec-div=false", "--prec-sqrt=false"}
    assert fast <= set(compile_flags("bfloat16", "sm_80"))
    assert not fast & set(compile_flags("float32", "sm_80"))
    for dtype in ("bfloat16", "float32"):
        assert "--ftz=true" not in compile_flags(dtype, "sm_80"), "subnormal numbers are kept"
    assert "--gpu-architecture=sm_120" in compile_flags("bfloat16", "sm_120")


PROGRAM = """
import hashlib, rnnc
from rnnc.codegen.derive import derive
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.shape import Shape
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.render import render
from rnnc.runtime.cuda.nvrtc import compile_cuda
plan = plan_for(rnnc.cells.irnn, Shape(2, 16), limits_of("A100"), "block")
binary = compile_cuda(render(derive(rnnc.cells.irnn), plan.forward), "sm_80")
print(hashlib.sha256(binary.cubin).hexdigest())
"""


@pytest.mark.slow
def test_two_processes_at_once_make_one_binary(cache):
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "RNNC_CACHE_DIR": str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    results = [process.communicate(timeout=240) for process in both]
    assert [p.returncode for p in both] == [0, 0], results
    assert len({out for out, _ in results}) == 1
    assert len(entries(cache)) == 1
    assert {path.suffix for path in cache.iterdir()} == {".cubin"}


def test_a_refused_source_shows_the_line_and_the_flags(cache):
    source = source_of()
    wrong = dataclasses.replace(source, code=source.code + "\nint nonsense = undeclared_thing;\n")
    with pytest.raises(rnnc.CompileError) as refused:
        compile_cuda(wrong, "sm_80")
    number = len(wrong.code.splitlines())
    text = str(refused.value)
    assert text.startswith("elman: NVRTC refused the generated source")
    assert f"elman.cu({number}): error" in text
    assert f"\n  {number} | int nonsense = undeclared_thing;" in text
    assert "--gpu-architecture=sm_80" in text
    assert not list(cache.iterdir()), "a failed build leaves nothing behind"


def test_an_error_in_a_header_shows_the_header_s_line(cache):
    source = source_of()
    headers = dict(source.headers)
    headers["lib/ptx/math.cuh"] += "\nint nonsense = undeclared_thing;\n"
    with pytest.raises(rnnc.CompileError, match=r"\d+ \| int nonsense = undeclared_thing;"):
        compile_cuda(dataclasses.replace(source, headers=tuple(headers.items())), "sm_80")


def test_an_unknown_architecture_is_refused(cache):
    with pytest.raises(rnnc.CompileError, match="sm_12345"):
        compile_cuda(source_of(), "sm_12345")


def test_ptx_is_text_for_the_architecture(cache):
    text = ptx_of(source_of(variant="block"), "sm_90a")
    assert ".target sm_90a" in text
    assert ".entry rnnc_forward" in text
    assert "mma.sync.aligned" in text
    assert not text.endswith("\0")


@pytest.fixture
def asked_again():
    nvrtc_version.cache_clear()
    yield
    nvrtc_version.cache_clear()


def test_the_wheel_tells_its_version_without_the_library(monkeypatch, asked_again):
    monkeypatch.setattr(device, "cupy_nvrtc", None)  # whoever calls it fails
    try:
        found = nvrtc_version()
    except TypeError:
        pytest.skip("this NVRTC did not come in a wheel")
    assert re.fullmatch(r"wheel \d+\.\d+\.\d+", found)


def test_without_its_wheel_the_library_is_asked(cache, monkeypatch, asked_again):
    monkeypatch.setattr(device, "_WHEELS", {})
    assert nvrtc_version() == str(cupy_nvrtc().getVersion())


def test_without_cupy_one_error_says_what_to_install(monkeypatch, asked_again):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(rnnc.NoCudaError) as missing:
        compile_cuda(source_of(), "sm_80")
    wanted = (torch.version.cuda or "13.0").split(".")[0]
    lines = str(missing.value).splitlines()
    assert lines[0] == "CUDA compiler"
    assert lines[1].startswith("  found:  ModuleNotFoundError: ")
    assert lines[2] == f"  wanted: CuPy with NVRTC for CUDA {wanted}"
    assert lines[3] == f'  write:  pip install "rnnc[cuda{wanted}]"'


def test_a_cupy_for_another_cuda_is_refused(cache, monkeypatch, asked_again):
    monkeypatch.setattr(torch.version, "cuda", "11.8")
    with pytest.raises(rnnc.NoCudaError) as mismatch:
        nvrtc_version()
    text = str(mismatch.value)
    assert "with torch for CUDA 11.8" in text
    assert "wanted: CuPy for CUDA 11, and no other CuPy" in text
    assert 'pip install "rnnc[cuda11]"' in text


@pytest.mark.parametrize(("version", "own"), [((12, 8), False), ((12, 9), True), ((13, 0), True)])
def test_nvrtc_does_not_take_its_own_cache_which_has_no_registers(version, own, monkeypatch):
    class Compiler:
        def __init__(self):
            self.flags = ()

        def createProgram(self, *_):  # noqa: N802
            return 1

        def compileProgram(self, _, flags):  # noqa: N802
            self.flags = flags

        def getVersion(self):  # noqa: N802
            return version

        def getPTX(self, _):  # noqa: N802
            return b"text"

        def destroyProgram(self, _):  # noqa: N802
            pass

    compiler = Compiler()
    monkeypatch.setattr(nvrtc, "cupy_nvrtc", lambda: compiler)
    source = rnnc.cells.elman.cuda(head_dim=32)
    nvrtc.ptx_of(source.units[0], "sm_90")
    assert ("--no-cache" in compiler.flags) == own
