"""`import rnnc`: quick, in any order, and with the same names for Python, mypy and pickle."""

from __future__ import annotations

import ast
import builtins
import importlib
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rnnc
import torch
from rnnc.runtime.call.marks import constant_in_graphs, outside_of_graphs

HEAVY = {"torch", "sympy", "pydantic", "jinja2"}
STUB = Path(rnnc.__file__).with_suffix(".pyi")
# What a process may import first. The slow ones meet torch and the operators in further orders.
FIRST = ["import rnnc.runtime.scan.scan"]
FURTHER = [
    "import torch, rnnc",
    "from rnnc import *",
    "import rnnc.runtime.check",
    "import rnnc.errors",
    "import rnnc.runtime.store.files",
    "import rnnc.cells, rnnc.define",
    "import rnnc.cellspec.cell, rnnc.cellspec.library",
    "import rnnc.bench.measure, rnnc.verify.findings",
    "import rnnc.cli.app",
    "from rnnc import cell, cells, scan, state",
    "import rnnc, torch",
]
# After each of them: the public names are themselves, cells pickle, and the operators are there.
AFTERWARDS = """
import pickle, sys, torch, rnnc
assert rnnc.cells is sys.modules["rnnc.cells"]
assert rnnc.cell.__module__ == "rnnc.define" and rnnc.scan.__module__ == "rnnc.runtime.scan.scan"
from rnnc import *
for name in rnnc.__all__:
    assert globals()[name] is getattr(rnnc, name), name
lstm = cells.lstm
assert pickle.loads(pickle.dumps(lstm)) == lstm and type(lstm) is Cell
assert torch.ops.rnnc.scan and torch.ops.rnnc.rnn
print(pickle.dumps((lstm, RNN, scan)).hex())
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light() -> None:
    code = f"import sys, rnnc; dir(rnnc); print(sorted({HEAVY} & sys.modules.keys()))"
    assert run(code) == "[]\n"


@pytest.mark.parametrize(
    "first", [*FIRST, *(pytest.param(f, marks=pytest.mark.slow) for f in FURTHER)]
)
def test_every_import_order_gives_the_same_names(first: str) -> None:
    cell, module, function = pickle.loads(bytes.fromhex(run(f"{first}\n{AFTERWARDS}")))
    assert (cell, module, function) == (rnnc.cells.lstm, rnnc.RNN, rnnc.scan)


def test_operators_are_registered_where_torch_is_imported_last() -> None:
    # To ask whether torch is there is not to import it.
    run(
        "import importlib.util, sys, rnnc; importlib.util.find_spec('torch')\n"
        "import torch; torch.ops.rnnc.call, torch.ops.rnnc.call_backward\n"
        "assert not any(type(f).__module__ == 'rnnc.register' for f in sys.meta_path)"
    )


# Neither a star import nor calls without a compiler wait for the parts of torch that take a second.
SMALL = """
import sys, torch
from rnnc import *
cell = cells.elman
RNN(cell, 4, 4)
assert "sympy" not in sys.modules, "only a derivation needs it"
scan(cell, torch.ones(2, 3, 1, 4, 1), torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4))
y, _ = RNN(cell, 4, 4)(torch.ones(2, 3, 4))
y.sum().backward()
print(sorted({"torch._dynamo", "torch.distributed.tensor"} & sys.modules.keys()))
assert distributed.HeadwiseParallel
"""


def test_calls_import_neither_torch_s_compiler_nor_its_distributed_tensors() -> None:
    assert run(SMALL) == "[]\n"


def test_the_steps_that_a_plan_is_chosen_for_need_no_derivation() -> None:
    """A first call whose plan and kernels are on disk asks for them too."""
    run(
        "import sys, rnnc; from rnnc.codegen.request import steps_like\n"
        "assert steps_like(rnnc.cells.hgrn, 2000) == 1024\n"
        "assert 'sympy' not in sys.modules"
    )


def test_names_of_distributed_are_there_before_they_are_imported() -> None:
    assert set(rnnc.distributed.__all__) <= set(dir(rnnc.distributed))
    assert set(rnnc.distributed._MODULE_OF) == set(rnnc.distributed.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'headwise_parallel'"):
        _ = rnnc.distributed.headwise_parallel


def test_functions_are_marked_as_torch_marks_them() -> None:
    ours, torchs = constant_in_graphs(lambda: 1), torch.compiler.assume_constant_result(lambda: 1)
    assert vars(ours) == vars(torchs) != {}
    calls = outside_of_graphs(lambda x: x + (2 if torch.compiler.is_compiling() else 1))
    found = torch.compile(lambda x: calls(x) * 1, backend="eager")(torch.zeros(2))
    assert found.tolist() == [1, 1]


def test_star_import_replaces_no_builtin() -> None:
    assert not set(rnnc.__all__) & set(dir(builtins))
    scope: dict[str, Any] = {"rnnc": rnnc}
    exec("from rnnc import *", scope)
    assert set(rnnc.__all__) <= set(scope)
    for absolute in ("abs", "rnnc.abs"):
        exec(f"@cell\ndef size(g: Gate, h: State):\n    return {absolute}(g) * h", scope)
        assert scope["size"].equations()[-1] == "h' = abs(g)*h"


def test_no_submodule_bears_the_name_of_another_public_thing() -> None:
    submodules = {m.name for m in pkgutil.iter_modules(rnnc.__path__)}
    assert {"cells", "define"} < submodules
    assert submodules & set(dir(rnnc)) == {"cells", "distributed", "init", "nn"}


def test_the_stub_has_the_same_names_from_the_same_modules() -> None:
    declared: dict[str, object] = {}
    listed: list[str] = []
    for line in ast.parse(STUB.read_text()).body:
        if isinstance(line, ast.ImportFrom):
            source = importlib.import_module("." + (line.module or ""), "rnnc")
            declared |= {alias.name: getattr(source, alias.name) for alias in line.names}
        elif isinstance(line, ast.Assign):
            listed = ast.literal_eval(line.value)
    assert set(listed) == set(rnnc.__all__)
    assert set(declared) == {name for name in dir(rnnc) if not name.startswith("__")}
    assert all(getattr(rnnc, name) is value for name, value in declared.items())


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="module 'rnnc' has no attribute 'tanhh'"):
        _ = rnnc.tanhh
    with pytest.raises(ImportError, match="cannot import name 'tanhh' from 'rnnc'"):
        exec("from rnnc import tanhh")
