"""Warnings point at the line of the caller, through frames of the package and of torch."""

from __future__ import annotations

import ast
import time
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.errors import NoCompilerError
from rnnc.runtime.cpu import compile
from rnnc.runtime.cpu.target import CpuTarget
from rnnc.runtime.process import caller
from rnnc.runtime.store import long_work, private
from torch import nn

X = torch.ones(3, 2, 4)


@pytest.fixture(autouse=True)
def afresh():
    caller.warn_once.cache_clear()
    yield
    caller.warn_once.cache_clear()


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(*_):
        raise NoCompilerError("C++ compiler", "none", "one", "install one")

    monkeypatch.setattr(CpuTarget, "find_compiler", refuse)


def own_layer():
    return rnnc.RNN(rnnc.cells.irnn, 4, 5)


CALLS = {
    "a function": lambda: rnnc.scan("irnn", torch.ones(1, 2, 1, 3, 1), torch.ones(1, 1, 3, 3)),
    "packed": lambda: rnnc.scan_packed(
        "irnn", torch.ones(2, 1, 3, 1), torch.ones(1, 1, 3, 3), cu_seqlens=torch.tensor([0, 2])
    ),
    "a module": lambda: own_layer()(X),
    "a step": lambda: own_layer().step(X[0]),
    "inside of torch": lambda: nn.Sequential(nn.Identity(), nn.Sequential(own_layer()))(X),
    "of rnnc.nn": lambda: rnnc.nn.LSTM(4, 5)(X),
    "warmup": lambda: rnnc.warmup(own_layer(), (3, 2, 4)),
    "compiled": lambda: torch.compile(own_layer(), backend="eager")(X),
}


def said_by(call):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    return [(w.filename, w.lineno) for w in said if "rnnc" in str(w.message)]


def line_of(function):
    return __file__, function.__code__.co_firstlineno


@pytest.mark.parametrize("name", CALLS)
def test_where_kernels_are_missing(name, no_compiler):
    (found,) = said_by(CALLS[name])
    first = CALLS[name].__code__.co_firstlineno
    assert found[0] == __file__
    assert first <= found[1] <= first + 2


def test_a_transform():
    layer = own_layer()
    call = lambda: torch.func.jvp(layer, (X,), (X,))  # noqa: E731
    assert said_by(call) == [line_of(call)]


def test_a_cache_folder_that_cannot_be_used(monkeypatch, tmp_path):
    monkeypatch.setattr(private, "_said", set())
    monkeypatch.setattr(private, "_folder", None)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "file"))
    compile.cpu_library.cache_clear()
    call = CALLS["a function"]
    assert said_by(call) == [line_of(call)]


def test_long_work_of_another_thread(monkeypatch, tmp_path):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(long_work, "PATIENCE", 0.05)
    build = compile.build
    monkeypatch.setattr(compile, "build", lambda *a: time.sleep(0.5) or build(*a))
    compile.cpu_library.cache_clear()
    call = CALLS["a function"]
    assert said_by(call) == [line_of(call)]


def test_an_entry_point(monkeypatch):
    point = EntryPoint("lstm", "a_package:lstm", "rnnc.cells")
    monkeypatch.setattr(rnnc.cells, "entry_points", lambda group: [point])
    rnnc.cells._third_party.cache_clear()
    call = lambda: rnnc.cells.names()  # noqa: E731
    assert said_by(call) == [line_of(call)]
    rnnc.cells._third_party.cache_clear()


def test_the_registry_of_the_module_is_used(no_compiler):
    """The default filter says a text once per line of the user's module."""
    caller.__dict__.pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(2):
            caller.warn("a text of rnnc")
    assert len(said) == 1
    assert "__warningregistry__" not in caller.__dict__


def test_nothing_else_warns():
    """All warnings go through the one place that finds the caller's line."""
    root = Path(__file__).parents[3]
    found = [
        file.name
        for room in ("api", "runtime", "codegen", "cellspec", "constrint")
        for file in (root / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("warn", "warn_explicit")
    ]
    assert found == ["caller.py"]
