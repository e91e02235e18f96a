"""Exported programs, state dicts and pickles of earlier versions load, and give the same numbers.

`write_files.py` says how the files were made. No change of rnnc is a reason to make them anew.
"""

from __future__ import annotations

import importlib.util
import io
import json
import pickletools
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest
import rnnc
import torch
from torch import nn
from torch._export.serde.schema import SCHEMA_VERSION

FOLDER = Path(__file__).parent
KINDS = "exported", "state", "pickled"
PATHS = {kind: sorted(FOLDER.glob(f"*/{kind}/*.txt")) for kind in KINDS}

# What pickles name, by its place in the package. Users have such files, so each name stays where it
# is, also where its code has moved.
NAMES = {
    "rnnc.define": ["Cell"],
    "rnnc.nn": [
        *("GRU", "GRUCell", "LSTM", "LSTMCell"),
        *("PlainGRU", "PlainGRUCell", "PlainLSTM", "PlainLSTMCell"),
    ],
    "rnnc.runtime.call.named": ["Named"],
    "rnnc.runtime.call.rows_form": ["rows_form"],
    "rnnc.runtime.composed.projection": ["Projection"],
    "rnnc.runtime.module.known_calls": ["KnownCalls"],
    "rnnc.runtime.module.rnn": ["RNN"],
    "rnnc.runtime.module.rows": ["rows_form"],
    "rnnc.runtime.module.weights": ["Named"],
    "rnnc.runtime.run.known_calls": ["KnownCalls"],
}

# The arguments of operators at 73a23fd and, of `call`, at 074a596. Programs give arguments by place
# and name, but for the last ones that are defaults: 68f5f67 had no `rows` and no `inputs`.
_OPTIONS = (
    "str cell, bool[] given, int layers, bool both, int heads, int dim, float dropout, str variant,"
    " str save, str? precision, str order, bool joint=False"
)
_LAST = (
    "str variant, str save, str? precision=None, bool reverse=False, Tensor? steps=None,"
    " Tensor? longest=None, Tensor[]? reset_to=None"
)
SCHEMAS = {
    "call": "Tensor[] tensors, str call",
    "rnn": (
        "Tensor x, Tensor[] states, Tensor[] weights, Tensor? masks, bool keep,"
        f" {_OPTIONS}, bool rows=False"
    ),
    "scan": (
        "Tensor wx, Tensor? R, Tensor? R_diag, Tensor? b, Tensor[] params, Tensor[] initial,"
        f" str cell, bool keep, bool[] over_time, {_LAST}, Tensor[]? inputs=None"
    ),
}


def _module(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


files = _module("write_files")
over = partial(pytest.mark.parametrize, "path", ids=lambda p: f"{p.parents[1].name}-{p.stem}")


def compare(run, record, weights):
    """Compare a call with the recorded one.

    In units in the last place of a tensor's largest number, or of 1. On the machine that wrote the
    files, later kernels, other flags of the compiler and the reference loop, which add in another
    order, differ by up to 3 units. Other processors may too: there is room for ten times as many.
    """
    found = files.results_of(run, record, weights)
    for key, wanted in record.results.items():
        room = 30 * torch.finfo(wanted.dtype).eps * max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(found[key], wanted, rtol=0.0, atol=room, msg=key_of(key))


def key_of(key):
    return lambda text: f"{key}: {text}"


def archived(saved):
    """The files in an archive, also in those that are inside of it, by the end of their names."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        for info in archive.infolist():
            content = archive.read(info)
            yield info.filename, content
            if content.startswith(b"PK"):
                yield from archived(content)


def graph_of(saved):
    """The serialized program of an archive."""
    (text,) = [content for name, content in archived(saved) if name.endswith("models/model.json")]
    return json.loads(text)


def operator(name):
    return getattr(torch.ops.rnnc, name).default


def skip_unless_torch_reads(saved):
    """Torch refuses programs of another major version of its schema, before it sees operators."""
    found, wanted = graph_of(saved)["schema_version"]["major"], SCHEMA_VERSION[0]
    if found != wanted:
        pytest.skip(f"torch {torch.__version__} reads programs of schema {wanted}, this is {found}")


def test_there_are_three_of_each_kind_and_of_earlier_layouts_one():
    for paths in PATHS.values():
        commits = [path.parents[1].name for path in paths]
        assert commits.count(files.IN_ROWS) >= 3
        assert commits.count(files.BY_GATE) >= 1


@over(PATHS["exported"])
def test_an_exported_program(path, tmp_path):
    saved, record = files.read(path)
    skip_unless_torch_reads(saved)
    (tmp_path / "program.pt2").write_bytes(saved)
    module = torch.export.load(tmp_path / "program.pt2").module()
    compare(module, record, module.named_parameters())


@over(PATHS["state"])
def test_a_state_dict(path, tmp_path):
    saved, record = files.read(path)
    (tmp_path / "state.pt").write_bytes(saved)
    state, module = torch.load(tmp_path / "state.pt"), files.STATES[path.stem]()
    if path.stem == "optimized":
        optimizer = torch.optim.Adam(module.parameters())
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        rnnc.upgrade_optimizer_state(optimizer, module)
        files.take_step(module, optimizer, record)
    else:
        # Without the cell in the metadata any cell would do.
        assert isinstance(module, nn.GRU) or state._metadata[""]["cell"]["name"] == module.cell.name
        module.load_state_dict(state)
    compare(module, record, module.named_parameters())


@over(PATHS["pickled"])
def test_a_pickled_module(path, tmp_path):
    saved, record = files.read(path)
    (tmp_path / "module.pt").write_bytes(saved)
    module = torch.load(tmp_path / "module.pt", weights_only=False)
    run = files.Each(*module) if isinstance(module, nn.ModuleList) else module
    for _ in range(3):  # a module remembers its calls
        compare(run, record, module.named_parameters())


@over(sorted(FOLDER.glob("*/json/*.txt")))
def test_the_json_of_cells(path):
    saved, _ = files.read(path)
    texts, today = json.loads(saved), {cell.name: cell for cell in files.cells()}
    assert len(texts) == 38
    for name, (text, fingerprint) in texts.items():
        assert json.loads(text)["updates"], name
        cell = rnnc.Cell.from_json(text)
        assert cell == today[name]
        assert cell.fingerprint == fingerprint == today[name].fingerprint


def test_import_rnnc_is_all_that_a_process_needs():
    """Operators are defined then, and what pickles name can be imported in any order."""
    code = (
        "import importlib, sys, rnnc, torch\n"
        f"for module in {sorted(NAMES, reverse=True)}: importlib.import_module(module)\n"
        "for name in sys.argv[1:]: print(getattr(torch.ops.rnnc, name).default._schema)"
    )
    command = [sys.executable, "-c", code, *SCHEMAS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(operator(name)._schema) for name in SCHEMAS]


def test_the_names_in_pickles_are_those_that_stay():
    found = {}
    for path in (path for paths in PATHS.values() for path in paths):
        for name, content in archived(files.read(path)[0]):
            if not name.endswith(".pkl"):
                continue
            named = [each for op, each, _ in pickletools.genops(content) if op.name == "GLOBAL"]
            for module, attribute in (each.split() for each in named):
                if module.partition(".")[0] == "rnnc":
                    found.setdefault(module, set()).add(attribute)
    assert {module: sorted(names) for module, names in found.items()} == NAMES
    for module, names in NAMES.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name)
    assert callable(importlib.import_module("rnnc.define").Cell.from_json)  # which pickles call


def test_the_operators_in_programs_are_those_that_stay():
    found = set()
    for path in PATHS["exported"]:
        for node in graph_of(files.read(path)[0])["graph_module"]["graph"]["nodes"]:
            *space, name, overload = node["target"].split(".")
            if space == ["torch", "ops", "rnnc"]:
                assert overload == "default"
                arguments = [each.split()[-1] for each in SCHEMAS[name].split(", ")]
                given = [each["name"] for each in node["inputs"]]
                assert given == [a.partition("=")[0] for a in arguments[: len(given)]]
                found.add(name)
    assert found == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_operator_takes_what_programs_give_it(name):
    earlier = torch._C.parse_schema(f"rnnc::{name}({SCHEMAS[name]}) -> Tensor[]")
    today = operator(name)._schema
    assert today.is_backward_compatible_with(earlier), today
