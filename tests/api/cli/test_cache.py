"""`rnnc cache`: it shows and removes rnnc's files, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import rnnc
import torch


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("RNNC_CACHE_DIR", str(folder))
    return folder


def test_an_absent_folder_is_empty(cache: Path, shown: Callable[..., str]) -> None:
    assert shown("cache", "where") == f"{cache}\n"
    assert shown("cache", "size") == "0 files, 0.0 MiB of at most 1024\n"
    assert shown("cache", "clear") == "removed 0 files, 0.0 MiB\n"


def test_what_was_compiled_is_counted_and_removed(
    cache: Path, shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = rnnc.cells.leaky_rate.with_constants(alpha=0.1875)
    rnnc.scan(cell, torch.zeros(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1), backend="cpu")
    made = sorted(cache.iterdir())
    assert {path.suffix for path in made} >= {".so", ".memo"}
    mine = cache / "notes-of-mine.so"
    mine.write_text("mine")
    monkeypatch.setenv("RNNC_CACHE_SIZE", "7")
    size = sum(path.stat().st_size for path in made) / 2**20
    assert shown("cache", "size") == f"{len(made)} files, {size:.1f} MiB of at most 7\n"
    assert shown("cache", "clear") == f"removed {len(made)} files, {size:.1f} MiB\n"
    assert list(cache.iterdir()) == [mine]
