"""Every error of rnnc has four parts and survives a copy and a pickle."""

import ast
import copy
import pickle

import pytest
import rnnc
from rnnc import errors
from rnnc.bench.rows import BenchError
from rnnc.cli.gpu import NoGpuError
from rnnc.constrint import ConstrintError, ModelError, TextError, UnknownVariableError
from rnnc.errors import DiagnosticError, RnncError

PARTS = ("here", "a thing", "another", "that one")
IN_FOUR_PARTS = (
    RnncError,
    rnnc.PlanError,
    rnnc.TensorError,
    rnnc.UnknownGpuError,
    NoGpuError,
    rnnc.CompileError,
    rnnc.NoCompilerError,
    rnnc.NoCudaError,
    rnnc.SecondOrderError,
    rnnc.TransformError,
    rnnc.BackwardError,
    rnnc.SettingError,
    rnnc.ResidencyError,
    ModelError,
    UnknownVariableError,
)
MADE = [
    *(kind(*PARTS) for kind in IN_FOUR_PARTS),
    rnnc.CellError(*PARTS[1:]),
    rnnc.CellError(*PARTS[1:]).at("my_cell.py:7"),
    BenchError(*PARTS[1:]),
    TextError(2, 3, "a <= b", *PARTS[1:]),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        *(
            lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
)
def test_a_copy_is_the_same_error(error, copied):
    again = copied(error)
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert again.args == error.args
    assert str(again) == str(error)


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_the_text_shows_the_four_parts(error):
    assert (error.found, error.wanted, error.write) == PARTS[1:]
    where, *_ = str(error).splitlines()
    assert where == (error.where or "cell")
    assert str(error).endswith("\n  found:  a thing\n  wanted: another\n  write:  that one")


def test_users_catch_them_by_the_same_bases():
    for kind in (errors.TensorError, errors.SettingError):
        assert issubclass(kind, RnncError)
        assert issubclass(kind, ValueError)
    for kind in (errors.SecondOrderError, errors.TransformError, errors.BackwardError):
        assert issubclass(kind, RnncError)
        assert issubclass(kind, RuntimeError)
    assert issubclass(errors.NoCudaError, errors.CompileError)
    assert issubclass(UnknownVariableError, KeyError)
    assert issubclass(UnknownVariableError, AttributeError)
    assert issubclass(TextError, ConstrintError)
    assert not issubclass(ModelError, RnncError)
    assert errors.TensorError(*PARTS).argument == "here"


def test_every_error_is_public_but_the_base():
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)} - {DiagnosticError}
    assert len(kinds) == 10
    assert all(getattr(rnnc, kind.__name__) is kind for kind in kinds)


def test_the_base_of_errors_imports_nothing():
    source = DiagnosticError.__init__.__code__.co_filename
    with open(source, encoding="utf-8") as file:
        nodes = ast.walk(ast.parse(file.read()))
    assert not [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
