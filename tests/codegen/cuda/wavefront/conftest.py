"""The model of a GPU, as a fixture, since tests cannot import each other."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def model() -> ModuleType:
    """`model.py`."""
    found = importlib.util.spec_from_file_location("model", Path(__file__).parent / "model.py")
    assert found is not None
    assert found.loader is not None
    module = sys.modules["model"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
