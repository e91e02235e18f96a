"""Compilation and its cache: many processes, broken entries, machines without a compiler."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.runtime.cpu import compile as compiling
from rnnc.runtime.cpu import compiler as compilers
from rnnc.runtime.cpu.compile import cpu_library
from rnnc.runtime.store import compiled
from rnnc.runtime.store import files as cache
from rnnc.runtime.store.files import clear_cache
from rnnc.runtime.store.sealed import write_sealed

PROGRAM = """
import torch, rnnc
(h,), _ = rnnc.scan(rnnc.cells.irnn, torch.ones(1, 2, 1, 3, 1), torch.ones(1, 1, 3, 3))
print(h.sum().item())
"""


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RNNC_QUICK_COMPILE", "1")  # what is cached is the same for all flags
    cpu_library.cache_clear()
    yield tmp_path / "cache"
    cpu_library.cache_clear()


def run(program=PROGRAM, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ASCII_PROGRAM = f"""
import locale, warnings
assert locale.getpreferredencoding() == "ANSI_X3.4-1968"
warnings.filterwarnings("error", category=EncodingWarning, module="rnnc")
{PROGRAM}
from rnnc.cli.app import app
app(["report", "irnn", "-o", "irnn.html"])
"""


def test_a_kernel_compiles_and_a_page_is_written_under_a_locale_of_ascii(empty_cache, tmp_path):
    """Also ends where a file is opened in the locale's encoding and happens to have ASCII only."""
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", ASCII_PROGRAM],
        env={**os.environ, **ASCII},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[0]) == scan_irnn(None)
    assert "→" in (tmp_path / "irnn.html").read_text("utf-8")


def scan_irnn(_):
    (h,), _ = rnnc.scan(rnnc.cells.irnn, torch.ones(1, 2, 1, 3, 1), torch.ones(1, 1, 3, 3))
    return h.sum().item()


def test_two_processes_at_once_make_one_library(empty_cache):
    """Forks of this process, since importing torch takes seconds."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        first, second = pool.map_async(scan_irnn, range(2), chunksize=1).get(timeout=120)
    assert first == second
    assert len(list(empty_cache.glob("irnn-*.so"))) == 1
    # What is remembered of cells lies beside them.
    assert {p.suffix for p in empty_cache.iterdir()} <= {".so", ".o", ".memo"}


@pytest.mark.slow
def test_a_broken_entry_is_made_again(empty_cache):
    outputs = []
    # A library cut short ends a process by a signal, where it is loaded.
    for damage in (None, lambda content: content[:10_000]):
        if damage is not None:
            (library,) = empty_cache.glob("irnn-*.so")
            library.write_bytes(damage(library.read_bytes()))
        process = run(RNNC_CACHE_DIR=str(empty_cache))
        outputs.append(process.communicate(timeout=120)[0])
        assert process.returncode == 0
    assert outputs[0] == outputs[1]
    assert library.stat().st_size > 10_000


@pytest.mark.parametrize("place", [0, 5000, -200, -1])
def test_a_library_with_one_changed_byte_is_not_loaded(empty_cache, place, monkeypatch):
    cpu_library(rnnc.cells.irnn, CpuPlan())
    (path,) = empty_cache.glob("*.so")
    right = path.read_bytes()
    wrong = bytearray(right)
    wrong[place] ^= 1
    path.unlink()  # this process runs the old file, and would run what is written into it
    path.write_bytes(wrong)
    cpu_library.cache_clear()
    monkeypatch.setattr(compiling, "build", lambda *_: right[: -len(right) // 2])
    monkeypatch.setattr(compiling.ctypes, "CDLL", lambda path: Path(path).read_bytes())
    assert cpu_library(rnnc.cells.irnn, CpuPlan()) not in (right, bytes(wrong))


def test_what_all_cells_share_is_compiled_once(empty_cache, monkeypatch):
    compiled_units, compile_unit = [], compiling._compiled
    monkeypatch.setattr(
        compiling, "_compiled", lambda u, *a: compiled_units.append(u.name) or compile_unit(u, *a)
    )
    for plan in (CpuPlan(), CpuPlan(masked=True), CpuPlan(single_step=True), CpuPlan("float64")):
        for cell in (rnnc.cells.irnn, rnnc.cells.elman):
            cpu_library(cell, plan)
    assert compiled_units == ["product-float", "dots-float", "product-double"]
    monkeypatch.setattr(compiling, "_QUICK_FLAGS", (*compiling._QUICK_FLAGS, "-g0"))
    cpu_library.cache_clear()
    cpu_library(rnnc.cells.irnn, CpuPlan())
    assert compiled_units[3:] == ["product-float"]
    assert len(list(empty_cache.glob("product-float-*.o"))) == 2


def test_a_damaged_object_is_compiled_again(empty_cache):
    cpu_library(rnnc.cells.irnn, CpuPlan())
    (path,) = empty_cache.glob("*.o")
    right = path.read_bytes()
    path.write_bytes(right[:5000])
    assert cpu_library(rnnc.cells.elman, CpuPlan()).rnnc_forward is not None
    assert path.read_bytes() == right


def library_of(name):
    return cpu_library(getattr(rnnc.cells, name), CpuPlan()).rnnc_forward is not None


def test_two_cells_at_once_share_one_object_which_is_cleared_with_them(empty_cache):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(library_of, ["irnn", "elman"], chunksize=1).get(timeout=120)
    assert len(list(empty_cache.glob("*.o"))) == 1
    clear_cache()
    assert not list(empty_cache.iterdir())


def test_a_compiler_whose_end_nobody_waits_for_is_stopped(tmp_path):
    def give_up():
        with compilers.begun(["sleep", "99"], tmp_path):
            raise RuntimeError("on purpose")

    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="on purpose"):
        give_up()
    assert time.perf_counter() - start < 50


def test_names_depend_on_all_that_makes_the_text(empty_cache, monkeypatch):
    cell = rnnc.cells.leaky_rate
    cpu_library(cell, CpuPlan())
    cpu_library(cell, CpuPlan("float64"))
    cpu_library(cell.with_constants(alpha=0.3), CpuPlan())
    monkeypatch.setattr(compiling, "_QUICK_FLAGS", (*compiling._QUICK_FLAGS, "-g0"))
    cpu_library.cache_clear()
    cpu_library(cell, CpuPlan())
    assert len(list(empty_cache.glob("*.so"))) == 4


def test_the_cached_start_derives_nothing(empty_cache, monkeypatch):
    cpu_library(rnnc.cells.slstm, CpuPlan())
    cpu_library.cache_clear()

    def refuse(*_):
        raise AssertionError("derived again")

    monkeypatch.setattr(compiled, "derive_for", refuse)
    cpu_library(rnnc.cells.slstm, CpuPlan())


def test_a_failed_build_leaves_nothing_behind(empty_cache):
    with pytest.raises(RuntimeError, match="on purpose"):
        cache.cached("thing.so", lambda: (_ for _ in ()).throw(RuntimeError("on purpose")))
    assert not list(empty_cache.iterdir())


def test_the_folder_is_the_user_s_by_default(monkeypatch):
    monkeypatch.delenv("RNNC_CACHE_DIR", raising=False)
    assert cache.cache_folder().name == "rnnc"


def test_without_a_compiler_one_warning_and_the_reference(tmp_path):
    program = (
        "import warnings, torch, rnnc\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(3):\n"
        "        rnn = rnnc.RNN(rnnc.cells.irnn, 2, 3)\n"
        "        y, _ = rnn(torch.ones(4, 1, 2)); y.sum().backward()\n"
        "print(len(said), said[0].message)\n"
        "try: rnnc.RNN(rnnc.cells.irnn, 2, 3, backend='cpu')(torch.ones(4, 1, 2))\n"
        "except rnnc.NoCompilerError as e: print('refused', e)\n"
    )
    process = run(program, PATH=str(tmp_path), RNNC_CACHE_DIR=str(tmp_path / "cache"))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.startswith("1 rnnc runs the slow reference loop, since there is no compiler:"), out
    assert "no `c++` on the PATH" in out
    assert "refused C++ compiler" in out


@pytest.mark.parametrize("kind", ["silent", "loud", "idle", "no program"])
def test_with_a_broken_compiler_one_warning_and_the_reference(tmp_path, kind):
    broken = script(tmp_path / "broken-c++", "echo 'no cc1plus' >&2; exit 1")
    if kind == "no program":
        broken.write_bytes(b"\x7fELF and no more")
    cxx = {"silent": "/bin/false", "idle": "/bin/true"}.get(kind, str(broken))
    program = (
        "import warnings, torch, rnnc\n"
        "x = torch.ones(4, 1, 2)\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(3):\n"
        "        y, _ = rnnc.RNN(rnnc.cells.irnn, 2, 3)(x); y.sum().backward()\n"
        "        rnnc.nn.LSTM(2, 3)(x)\n"
        "print(len(said), *(w.message for w in said))\n"
        "try: rnnc.RNN(rnnc.cells.irnn, 2, 3, backend='cpu')(x)\n"
        "except rnnc.CompileError as e: print('refused', type(e).__name__, e)\n"
    )
    process = run(program, CXX=cxx, RNNC_CACHE_DIR=str(tmp_path / "cache"))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    said = {
        "silent": "it says nothing, and ends with the status 1",
        "loud": "no cc1plus",
        "idle": "it succeeds, and writes no file",
        "no program": f"{broken}: Exec format error",
    }[kind]
    found = f"C++ compiler\n  found:  `{cxx}` does not compile a line of C++: {said}\n"
    slow = "rnnc runs the slow reference loop, since there are no CPU kernels:\n"
    own = "rnnc.nn runs torch's own forward, since there are no CPU kernels:\n"
    assert out.startswith(f"2 {slow}{found}"), out
    assert f"{own}{found}" in out
    assert f"refused CompileError {found}" in out


def test_a_compiler_is_tried_once_on_a_machine(empty_cache, monkeypatch):
    flags = compiling._flags()
    compiler = compiling.find_compiler()
    ways = []
    compile_probe = compilers._probed
    monkeypatch.setattr(compilers, "_probed", lambda *a: ways.append(a) or compile_probe(*a))
    assert compilers.openmp_flag(compiler, flags) == compilers.openmp_flag(compiler, flags)
    assert [way[:2] for way in ways] == [(compiler, flags)]


@pytest.mark.parametrize("kept", [None, {}, "x", 1])
def test_an_answer_that_is_none_is_asked_for_again(empty_cache, kept, monkeypatch):
    flags, compiler = compiling._flags(), compiling.find_compiler()
    wanted = compilers.openmp_flag(compiler, flags)
    (path,) = empty_cache.glob("compiler-*.memo")
    write_sealed(path, json.dumps(kept).encode())
    assert compilers.openmp_flag(compiler, flags) == wanted
    monkeypatch.setattr(compilers, "_probed", None)  # kept again
    assert compilers.openmp_flag(compiler, flags) == wanted


@pytest.fixture
def compiler_of(monkeypatch):
    """Sets CXX."""

    def set_to(words):
        monkeypatch.setenv("CXX", words)
        return compiling.find_compiler()

    return set_to


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_compiler_may_have_options_and_a_launcher(tmp_path, empty_cache, compiler_of):
    whole = compiler_of("c++")[0]
    launcher = script(tmp_path / "my ccache", f'echo "$@" >> "{tmp_path}/calls"\nexec "$@"')
    words = compiler_of(f"'{launcher}' {whole} -O1 -DNAME='a b'")
    assert words == (str(launcher), whole, "-O1", "-DNAME=a b")
    assert cpu_library(rnnc.cells.irnn, CpuPlan()).rnnc_forward is not None
    assert f"{whole} -O1 -DNAME=a b -std=c++17" in (tmp_path / "calls").read_text()


def test_files_depend_on_each_word_of_the_compiler(tmp_path, compiler_of):
    launcher, own = (script(tmp_path / name, "exit 0") for name in ("launch", "own-c++"))
    digests = [compiling.tool_digest(compiler_of(f"{launcher} {own}{o}")) for o in ("", " -O1")]
    script(own, "exit 1 # another version")
    digests.append(compiling.tool_digest(compiler_of(f"{launcher} {own}")))
    assert len(set(digests)) == 3


def test_a_quote_that_does_not_end_is_no_compiler(compiler_of):
    with pytest.raises(rnnc.NoCompilerError, match="CXX=g\\+\\+ 'a: No closing quotation"):
        compiler_of("g++ 'a")


def test_a_compiler_that_fails_is_quoted(tmp_path, empty_cache, monkeypatch):
    broken = tmp_path / "broken-c++"
    broken.write_text("#!/bin/sh\necho 'internal error: no such thing' >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(rnnc.CompileError, match="internal error: no such thing"):
        cpu_library(rnnc.cells.irnn, CpuPlan())


def test_cold_and_cached_starts_are_quick(empty_cache, monkeypatch):
    """Generous bounds: the figures are the benchmark's; this catches a change of kind."""
    monkeypatch.delenv("RNNC_QUICK_COMPILE")
    start = time.perf_counter()
    cpu_library(rnnc.cells.lstm, CpuPlan())
    cold = time.perf_counter() - start
    cpu_library.cache_clear()
    start = time.perf_counter()
    cpu_library(rnnc.cells.lstm, CpuPlan())
    cached = time.perf_counter() - start
    assert cold < 15
    assert cached < cold / 5
