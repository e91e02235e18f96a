"""The examples in docstrings run, and the public names have some."""

import doctest
import importlib
import importlib.util
import pkgutil
import tomllib
from pathlib import Path

import pytest
import rnnc

ROOT = Path(__file__).parents[2]


def modules() -> list[str]:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms = setup["tool"]["setuptools"]["packages"]
    found = set(rooms)
    for room in rooms:
        path = importlib.import_module(room).__path__
        found |= {f"{room}.{m.name}" for m in pkgutil.iter_modules(path) if not m.ispkg}
    return sorted(found)


def has_examples(name: str) -> bool:
    """Whether the text of a module has any: to look through its objects takes longer."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return ">>> " in Path(spec.origin).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", filter(has_examples, modules()))
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_all_modules_are_found() -> None:
    wanted = {"rnnc.define", "rnnc.cellspec.library.lstm", "rnnc.runtime.module.rnn"}
    assert wanted <= set(modules())


@pytest.mark.parametrize("name", "cell Cell scan RNN gate state param constant cells.names".split())
def test_public_names_have_an_example(name: str) -> None:
    public = rnnc
    for part in name.split("."):
        public = getattr(public, part)
    assert ">>> " in (public.__doc__ or "")
