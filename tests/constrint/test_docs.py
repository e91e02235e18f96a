"""The examples in the docstrings and on the page say what really happens."""

import doctest
import importlib
import pkgutil

import pytest
import rnnc.constrint

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
