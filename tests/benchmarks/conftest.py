"""A fixture that imports a benchmark script as a module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Import a benchmark by its name, with its folder's if it has one of its own."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:

        def load(name: str) -> ModuleType:
            folder, _, module = name.rpartition("/")
            patch.syspath_prepend(str(FOLDER / folder))
            return importlib.import_module(module)

        yield load
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(FOLDER)):
            del sys.modules[name]
