"""The cache folder: bounded, and the kernels in use stay."""

from __future__ import annotations

import os

import pytest
from rnnc.runtime.cache import cached_file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("RNNC_CACHE_SIZE", "1")
    return tmp_path


def write(name, kib=400):
    return cached_file(name, lambda path: path.write_bytes(bytes(1024 * kib)) and None)


def kernels(folder):
    return sorted(p.name for p in folder.iterdir() if p.suffix != ".lock")


def test_what_was_used_longest_ago_goes(folder):
    for age, name in enumerate(["a.so", "b.cubin"]):
        os.utime(write(name), (age, age))
    write("a.so")  # found, and so used again
    write("c.so")
    assert kernels(folder) == ["a.so", "c.so"]
    assert not (folder / "b.cubin.lock").exists()


def test_files_of_others_stay_and_one_kernel_always_does(folder):
    (folder / "notes.txt").write_bytes(bytes(1024 * 3000))
    write("a.so")
    assert kernels(folder) == ["a.so", "notes.txt"]
    write("huge.so", kib=2000)
    assert kernels(folder) == ["huge.so", "notes.txt"]


def test_an_unreadable_size_counts_as_unset(folder, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_SIZE", "much")
    for name in ("a.so", "b.so", "c.so"):
        write(name)
    assert kernels(folder) == ["a.so", "b.so", "c.so"]
