"""Fixtures of the fuzzer's tests: a cache folder per test, and the process state restored."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("RNNC_QUICK_COMPILE", "")
    yield
    torch.set_num_threads(threads)
    os.environ.pop("RNNC_QUICK_COMPILE", None)
