"""Without a usable cache folder: one warning, a private folder, and calls that run."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.runtime.cpu import compile, compiler
from rnnc.runtime.cpu.compile import cpu_library
from rnnc.runtime.program.seen import forget_replays
from rnnc.runtime.store import files as cache
from rnnc.runtime.store import private
from rnnc.runtime.store.files import cached, keep, look_up

COMPILER = compiler.find_compiler()
FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def afresh(monkeypatch, tmp_path):
    """As in a process that has not met any folder yet."""
    monkeypatch.setattr(private, "_folder", None)
    monkeypatch.setattr(private, "_said", set())
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    cpu_library.cache_clear()
    forget_replays()  # they hold functions of libraries
    yield
    cpu_library.cache_clear()


def in_the_way(tmp_path):
    (tmp_path / "file").write_text("a file in the place of the folder")
    return tmp_path / "file"


def under_a_file(tmp_path):
    return in_the_way(tmp_path) / "rnnc"


def no_device(_):
    return Path("/dev/full/rnnc")


def no_processes(_):
    return Path("/proc/nonexistent")  # where root cannot make a folder either


def too_long(tmp_path):
    return tmp_path / ("x" * 300)


def no_home(_):
    return Path("~nobody-of-this-name/rnnc")


@pytest.mark.parametrize(
    "make", [in_the_way, under_a_file, no_device, no_processes, too_long, no_home]
)
def test_a_folder_that_cannot_be_used_is_replaced_and_said_once(make, tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(make(tmp_path)))
    with pytest.warns(RuntimeWarning, match="RNNC_CACHE_DIR") as said:
        first = cached("a.so", lambda: b"a")
    assert str(make(tmp_path)) in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = cached("b.cubin", lambda: b"b")
        keep("c.plan", b"c")
    assert first.path.parent == second.path.parent == private.private_folder()
    assert stat.S_IMODE(first.path.parent.stat().st_mode) == 0o700
    assert cached("a.so", lambda: b"again").content == b"a"
    assert look_up("c.plan").content == b"c"
    assert look_up("d.plan") is None


def refusing(number, folder):
    """Opening a file for writing in that folder, or below it, fails as the system would say it."""
    opened = os.open

    def refuse(path, flags, *rest, **options):
        if str(path).startswith(str(folder)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, flags, *rest, **options)

    return refuse


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_more_is_said(number, tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    cached("a.so", lambda: b"a")
    monkeypatch.setattr(os, "open", refusing(number, tmp_path / "cache"))
    with pytest.warns(RuntimeWarning, match=re.escape(os.strerror(number))):
        assert cached("b.so", lambda: b"b").path.parent == private.private_folder()
    assert cached("a.so", lambda: b"again").content == b"a", "what is there is still read"


def test_a_disk_that_fills_while_a_file_is_written_leaves_no_part_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    written = cache.write_sealed

    def fill(path, content):
        if path.parent != tmp_path / "cache":
            return written(path, content)
        with monkeypatch.context() as patch:
            opened = os.fdopen
            full = os.open("/dev/full", os.O_WRONLY)
            patch.setattr(os, "fdopen", lambda descriptor, mode: opened(full, mode))
            return written(path, content)

    monkeypatch.setattr(cache, "write_sealed", fill)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        found = cached("a.so", lambda: b"a" * 100_000)
    assert found.path.parent == private.private_folder()
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_any_folder_the_content_is_there_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(in_the_way(tmp_path)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    monkeypatch.setattr(private, "MEMORY_FOLDER", str(tmp_path / "nothing"))
    with pytest.warns(RuntimeWarning, match="RNNC_CACHE_DIR"):
        assert cached("a.so", lambda: b"a") == (b"a", None)
    keep("c.plan", b"c")
    assert look_up("c.plan") is None


def in_small_files(limit, queue):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with pytest.warns(RuntimeWarning, match="File too large") as said:
        found = cached("a.so", lambda: b"a" * 10_000)
    queue.put((len(found.content), found.path, len(said)))


def test_a_quota_on_files_is_no_obstacle(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    queue = FORK.SimpleQueue()
    process = FORK.Process(target=in_small_files, args=(5000, queue))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert queue.get() == (10_000, None, 1)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_forked_process_uses_the_folder_and_leaves_it(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(in_the_way(tmp_path)))
    with pytest.warns(RuntimeWarning):
        path = cached("a.so", lambda: b"a").path

    def child():
        assert cached("a.so", lambda: b"again").path == path
        private._remove(path.parent, os.getppid())

    process = FORK.Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert path.exists()


def run_irnn():
    (h,), _ = rnnc.scan(rnnc.cells.irnn, torch.ones(1, 2, 1, 3, 1), torch.ones(1, 1, 3, 3))
    return h.sum().item()


def test_kernels_run_from_memory_where_nothing_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(in_the_way(tmp_path)))
    real = compile.build

    def with_room(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(tmp_path))
            return real(*arguments)

    monkeypatch.setattr(compile, "build", with_room)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    monkeypatch.setattr(private, "MEMORY_FOLDER", str(tmp_path / "nothing"))
    with pytest.warns(RuntimeWarning, match="RNNC_CACHE_DIR"):
        assert run_irnn() == 15.0


def test_kernels_run_from_memory_where_nothing_on_disk_may_be_executed(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    load = ctypes.CDLL

    def refuse(path):
        if path.startswith(str(tmp_path)):
            raise OSError(f"{path}: failed to map segment from shared object")
        return load(path)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert run_irnn() == 15.0
    # Two libraries in memory are two libraries.
    assert (
        cpu_library(rnnc.cells.elman, CpuPlan())._name
        != cpu_library(rnnc.cells.irnn, CpuPlan())._name
    )


def full_compiler(tmp_path, *full):
    """A C++ compiler that meets a full disk in these folders, and is the machine's elsewhere."""
    script = tmp_path / "full-c++"
    patterns = "|".join(f"*{folder}*" for folder in full)
    script.write_text(
        f'#!/bin/sh\ncase "$*" in {patterns})\n'
        '  echo "ld: final link failed: No space left on device" >&2; exit 1;;\nesac\n'
        f'exec {COMPILER[0]} "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


def test_a_compiler_on_a_full_disk_is_run_on_another(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", full_compiler(tmp_path, tempfile.gettempdir()))
    assert run_irnn() == 15.0


def test_a_compiler_without_any_room_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", full_compiler(tmp_path, tmp_path, private.MEMORY_FOLDER))
    with pytest.raises(rnnc.CompileError) as refused:
        run_irnn()
    first, found, wanted, advice = str(refused.value).splitlines()
    assert first == "irnn, the files of its compilation"
    assert found.startswith(f"  found:  {tempfile.gettempdir()}: No space left on device; ")
    assert wanted == "  wanted: a folder with room for a few MiB"
    assert advice == "  write:  TMPDIR=… in the environment, with the path of such a folder"
    # The advice, followed.
    room = tmp_path.parent / f"{tmp_path.name}-room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    monkeypatch.setenv("CXX", full_compiler(tmp_path, f"{tmp_path}/", private.MEMORY_FOLDER))
    assert run_irnn() == 15.0


PROGRAM = """
import os, sys, rnnc, torch
rnn = rnnc.RNN(rnnc.cells.irnn, 2, 3)
y, _ = rnn(torch.ones(4, 1, 2))
y.sum().backward()
from rnnc.runtime.store.private import private_folder
print(private_folder())
print(sorted(p.suffix for p in private_folder().iterdir() if p.suffix == ".so"))
"""


@pytest.mark.parametrize("home", ["/nonexistent", pytest.param(None, marks=pytest.mark.slow)])
def test_training_starts_without_a_home_and_leaves_nothing(home, tmp_path):
    kept = {"PATH", "LD_LIBRARY_PATH", "CXX"}
    environment = {name: value for name, value in os.environ.items() if name in kept}
    environment |= {"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    blocked = tmp_path / "home"
    blocked.write_text("a file, since root may write everywhere else")
    environment["XDG_CACHE_HOME"] = str(blocked)
    if home is not None:
        environment["HOME"] = home
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    folder, libraries = done.stdout.splitlines()
    assert Path(folder).parent == tmp_path
    assert libraries == "['.so']"
    assert not Path(folder).exists()
    assert done.stderr.count("RNNC_CACHE_DIR") == 1
    assert str(blocked) in done.stderr
