"""The files of the library: short, with a citation, and each a cell that round-trips."""

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from rnnc.cellspec import library
from rnnc.cellspec.cell import CellSpec
from rnnc.cellspec.library import NAMES, load

FOLDER = Path(library.__file__).parent


def test_an_unknown_name_is_a_key_error():
    with pytest.raises(KeyError, match="no_such_cell"):
        load("no_such_cell")


@pytest.mark.parametrize("name", NAMES)
def test_file_is_short_and_names_its_paper(name):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= {"hodgkin_huxley": 52, "layer_norm_lstm": 46}.get(name, 40)
    paper = inspect.getdoc(import_module(f"{library.__name__}.{name}"))
    cell = load(name)
    year = re.compile(r"\b(19|20)\d\d\b")
    assert year.search(paper)
    assert year.search(cell.doc)
    assert cell.name == name


@pytest.mark.parametrize("name", NAMES)
def test_json_gives_the_cell_back(name):
    cell = load(name)
    again = CellSpec.from_json(cell.to_json())
    assert again.to_json() == cell.to_json()
    assert again.updates == cell.updates
    assert again.fingerprint == cell.fingerprint


@pytest.mark.slow
def test_fingerprints_do_not_depend_on_the_process():
    script = (
        "import json; from rnnc.cellspec.library import NAMES, load;"
        "print(json.dumps({name: load(name).fingerprint for name in reversed(NAMES)}))"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    printed = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(printed) == {name: load(name).fingerprint for name in NAMES}


def test_fingerprints_differ():
    assert len({load(name).fingerprint for name in NAMES}) == len(NAMES)


def test_constants_are_overridden_by_name():
    assert load("leaky_rate").with_constants(alpha=0.2).constants[0].value == 0.2
