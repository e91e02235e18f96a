"""The examples in ConstrINT's docstrings and on its page run as shown."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest
import rnnc.constrint

PAGE = Path(__file__).parents[2] / "docs" / "constrint.md"
MODULES = [f"rnnc.constrint.{m.name}" for m in pkgutil.iter_modules(rnnc.constrint.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_question_has_a_runnable_example():
    for name in (
        "int",
        "require",
        "solve",
        "solutions",
        "best",
        "count",
        "explain",
        "why",
        "relax",
    ):
        assert ">>> " in (getattr(rnnc.constrint.Model, name).__doc__ or "")


def test_the_page():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
