"""The cache folder: limited in size, shared between processes, repaired after damage."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path

import filelock
import pytest
from rnnc.runtime.store import files as cache
from rnnc.runtime.store import private, sealed
from rnnc.runtime.store.files import cached, keep, look_up
from rnnc.runtime.store.sealed import read_sealed, write_sealed

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("RNNC_CACHE_SIZE", "1")
    # As in a process that has not met any folder yet.
    monkeypatch.setattr(private, "_folder", None)
    monkeypatch.setattr(private, "_said", set())
    return tmp_path


def write(name, kib=400):
    return cached(name, lambda: bytes(1024 * kib)).path


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_what_was_used_longest_ago_goes(folder):
    for age, name in enumerate(["a.so", "b.cubin"]):
        os.utime(write(name), (age, age))
    write("a.so")  # found, and so used again
    write("c.so")
    assert names(folder) == ["a.so", "c.so"]


def test_files_of_others_stay_and_one_kernel_always_does(folder):
    (folder / "notes.txt").write_bytes(bytes(1024 * 3000))
    write("a.so")
    assert names(folder) == ["a.so", "notes.txt"]
    write("huge.so", kib=2000)
    assert names(folder) == ["huge.so", "notes.txt"]


def test_an_unreadable_size_counts_as_unset(folder, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_SIZE", "much")
    for name in ("a.so", "b.so", "c.so"):
        write(name)
    assert names(folder) == ["a.so", "b.so", "c.so"]


def test_unfinished_files_of_processes_that_ended_go_after_a_day(folder):
    old, new = folder / ".1.part", folder / ".2.part"
    for path, age in ((old, 2 * 24 * 3600), (new, 60)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    write("a.so")
    assert names(folder) == [".2.part", "a.so"]


def test_a_file_that_another_process_removes_meanwhile_is_no_error(folder, monkeypatch):
    listed = cache._entries

    def then_removed(place):
        entries = listed(place)
        for path, _ in entries:
            path.unlink()
        return entries

    monkeypatch.setattr(cache, "_entries", then_removed)
    assert cached("a.so", lambda: b"a").content == b"a"


def test_the_lock_that_another_process_holds_stays(folder):
    os.utime(write("b.so"), (1, 1))
    with filelock.FileLock(folder / "b.so.lock"):
        for name in ("a.so", "c.so"):
            write(name)
        assert names(folder) == ["a.so", "b.so.lock", "c.so"]


def damaged(path, how):
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "truncated": content[:middle],
            "one bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "longer": content + b"\n",
            "empty": b"",
            "foreign": b"not ours",
        }[how]
    )


@pytest.mark.parametrize("how", ["truncated", "one bit", "longer", "empty", "foreign"])
def test_what_is_damaged_is_made_anew(folder, how):
    path = write("a.so", kib=10)
    damaged(path, how)
    assert look_up("a.so") is None
    assert cached("a.so", lambda: b"again").content == b"again"
    assert look_up("a.so") == (b"again", path)


def test_a_file_with_another_s_name_is_made_anew(folder):
    shutil.copy(write("a.so", kib=1), folder / "b.so")
    assert cached("b.so", lambda: b"b").content == b"b"


def test_a_seal_says_nothing_of_the_content(tmp_path):
    for content in (b"", b"\n", b"x" * 100, b"\nrnnc 1 sha256 "):
        write_sealed(tmp_path / "a", content)
        assert read_sealed(tmp_path / "a") == content
    with pytest.raises(FileNotFoundError):
        read_sealed(tmp_path / "b")


def test_a_long_name_is_cut():
    assert cache.file_name("x" * 500, "0" * 32, "cubin") == f"{'x' * 80}-{'0' * 32}.cubin"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o000, 0o644), (0o077, 0o600)])
def test_no_other_user_may_write_the_files_and_the_folder(folder, monkeypatch, umask, mode):
    folder = folder / "new"
    monkeypatch.setenv("RNNC_CACHE_DIR", str(folder))
    before = os.umask(umask)
    try:
        paths = [write("a.so", kib=1), write("b.cubin", kib=1)]
        keep("c.plan", b"{}")
    finally:
        os.umask(before)
    for path in (*paths, folder / "c.plan"):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(folder.stat().st_mode) == mode | (mode & 0o444) >> 2


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_made_anew(folder, mode):
    write("a.so", kib=1).chmod(mode)
    assert look_up("a.so") is None
    assert cached("a.so", lambda: b"again").content == b"again"
    assert cached("a.so", lambda: b"no").content == b"again"


def test_a_system_without_owners_loads_its_files(folder, monkeypatch):
    """Windows gives every file the modes of all users, and no user's number."""
    monkeypatch.delattr(os, "geteuid")
    monkeypatch.setattr(sealed, "_HAS_OWNERS", False)
    write("a.so", kib=1).chmod(0o666)
    folder.chmod(0o777)
    assert look_up("a.so") is not None
    assert cached("b.so", lambda: b"b").path.parent == folder


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
@pytest.mark.parametrize("what", ["a.so", "."])
def test_what_belongs_to_another_user_is_not_loaded(folder, what):
    write("a.so", kib=1)
    os.chown(folder / what, 65534, 65534)
    assert look_up("a.so") is None
    with pytest.warns(RuntimeWarning, match=f"{folder}.* belongs to another user"):
        assert cached("a.so", lambda: b"again").path.parent != folder


@pytest.mark.parametrize(("mode", "used"), [(0o777, False), (0o1777, True), (0o775, True)])
def test_a_folder_in_which_everyone_may_replace_files_is_not_used(folder, mode, used):
    write("a.so", kib=1)
    folder.chmod(mode)
    assert (look_up("a.so") is not None) is used
    if not used:
        with pytest.warns(RuntimeWarning, match=f"everyone may write it; chmod o-w {folder}"):
            assert cached("b.so", lambda: b"b").path.parent != folder


def make_slowly(log):
    def make():
        with log.open("a") as file:
            file.write("made\n")
        time.sleep(0.5)
        return b"x" * 100_000

    return make


def ask(start, log):
    start.wait()
    assert cached("a.cubin", make_slowly(log)).content == b"x" * 100_000


def test_sixteen_processes_at_once_make_it_once(folder, tmp_path):
    log, start = tmp_path / "log.txt", FORK.Event()
    processes = [FORK.Process(target=ask, args=(start, log)) for _ in range(16)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(60)
    assert [p.exitcode for p in processes] == [0] * 16
    assert log.read_text() == "made\n"
    assert names(folder) == ["a.cubin", "log.txt"]


def test_threads_at_once_make_it_once(folder, tmp_path):
    log, start = tmp_path / "log.txt", threading.Event()
    threads = [threading.Thread(target=ask, args=(start, log)) for _ in range(4)]
    for thread in threads:
        thread.start()
    start.set()
    for thread in threads:
        thread.join(60)
    assert log.read_text() == "made\n"


def test_a_process_that_never_ends_is_not_waited_for(folder, monkeypatch):
    monkeypatch.setattr(cache, "_QUIET", 0.1)
    monkeypatch.setattr(cache, "_PATIENCE", 0.2)
    with filelock.FileLock(folder / "a.so.lock"):
        with pytest.warns(RuntimeWarning, match="another process to compile a.so"):
            assert cached("a.so", lambda: b"a").content == b"a"
        assert "a.so.lock" in names(folder), "it is the other's"


def test_a_disk_without_locks_serves_too(folder, monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    assert cached("a.so", lambda: b"a").path == folder / "a.so"


def test_an_error_of_the_maker_is_the_caller_s_and_leaves_nothing(folder):
    def fail():
        raise FileNotFoundError("on purpose")

    with pytest.raises(FileNotFoundError, match="on purpose"):
        cached("a.so", fail)
    assert not names(folder)


def as_nobody(function, *arguments):
    """Run a function in a process of another user; what it returns."""

    def run():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        outbox.put(function(*arguments))

    outbox = FORK.SimpleQueue()
    process = FORK.Process(target=run)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    return outbox.get()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_folder_of_root_serves_two_users(monkeypatch, mode):
    shared = Path(tempfile.mkdtemp())  # pytest's own folders are for one user
    monkeypatch.setenv("RNNC_CACHE_DIR", str(shared))
    before = os.umask(0o022)
    try:
        shared.chmod(mode)
        cached("theirs.so", lambda: b"theirs")
        cached("hidden.so", lambda: b"hidden").path.chmod(0o600)
        cached("damaged.so", lambda: b"damaged").path.write_bytes(b"torn")
        (shared / "locked.so.lock").touch(0o644)

        def other_user():
            tempfile.tempdir = "/tmp"
            found = {}
            for name in ("theirs", "hidden", "damaged", "locked", "new"):
                made = cached(f"{name}.so", lambda name=name: f"{name} again".encode())
                found[name] = (made.content.decode(), made.path.parent == shared)
            return found

        def silent():
            import warnings

            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = other_user()
            return found, [str(w.message) for w in said]

        found, said = as_nobody(silent)
    finally:
        os.umask(before)
        shutil.rmtree(shared)
    here = mode != 0o755
    assert found == {
        "theirs": ("theirs", True),
        "hidden": ("hidden again", False),
        "damaged": ("damaged again", False),
        "locked": ("locked again", here),
        "new": ("new again", here),
    }
    assert len(said) == 1
    assert "Permission denied" in said[0]
    assert "RNNC_CACHE_DIR" in said[0]
