"""Runs a user's file to find its cells; whatever goes wrong in it becomes an error with a line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ..cellspec.errors import CellError
from ..define import STAND_IN
from ..runtime.errors import TensorError


class BrokenCell:
    """Stands where a file defines a cell that has an error: whoever uses it meets the error."""

    def __init__(self, name: str, error: CellError) -> None:
        self.__dict__.update(name=name, error=error)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.error

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise the cell's error."""
        raise self.error


def load_file(path: Path, code: bytes) -> ModuleType:
    """Run a user's file as Python would, with its folder first on the path.

    What it prints goes to the error stream, since the command's output may be a source.

    Args:
        path: the file.
        code: its content.

    Raises:
        CellError: it does not run to its end.
    """
    module = ModuleType(f"rnnc_file_{path.stem}")
    module.__file__ = str(path)
    # Where dataclasses look up their annotations; under a name that hides no other module.
    sys.modules[module.__name__] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    broken: list[BrokenCell] = []

    def stand_in(function: Callable[..., Any], error: CellError) -> BrokenCell:
        line = f"{path}:{function.__code__.co_firstlineno}"
        place = error.where if ".py:" in error.where else line
        placed = CellError(error.found, error.wanted, error.write, place)
        broken.append(BrokenCell(function.__name__, placed))
        return broken[-1]

    token = STAND_IN.set(stand_in)
    try:
        # Not by an importer, which would leave a compiled copy beside the file.
        with redirect_stdout(sys.stderr):
            exec(compile(code, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        # A line that uses a broken cell fails for that cell's reason.
        raise broken[0].error if broken else _as_cell_error(error, path) from error
    finally:
        STAND_IN.reset(token)
        sys.path.remove(folder)
    return module


def _as_cell_error(error: BaseException, path: Path) -> CellError:
    if isinstance(error, SyntaxError):
        return CellError(
            f"{type(error).__name__}: {error.msg}",
            "a file that Python can read",
            f"lines that `python -m py_compile {path}` accepts",
            where=f"{error.filename or path}:{error.lineno or 1}",
        )
    if isinstance(error, ImportError):
        missing = isinstance(error, ModuleNotFoundError)
        return CellError(
            said(error),
            "a module that this Python has, or that lies beside the file"
            if missing
            else f"a name that the module {error.name} has",
            f"`{sys.executable} -m pip install …`, if it is a package" if missing else "that name",
            where=_place(error, path),
        )
    own = error.__cause__ if isinstance(error, AttributeError) else error
    if isinstance(own, CellError):
        place = own.where if ".py:" in own.where else _place(error, path)
        return CellError(own.found, own.wanted, own.write, place)
    if isinstance(own, TensorError):
        found = f"{own.argument}, {own.found}"
        return CellError(found, own.wanted, own.write, _place(error, path))
    return CellError(
        said(error),
        "a file that loads: rnnc runs it to find its cells",
        'whatever is no definition under `if __name__ == "__main__":`',
        where=_place(error, path),
    )


def _place(error: BaseException, path: Path) -> str:
    """The last line of the user's file that the error came through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def said(error: BaseException) -> str:
    """An error in a line, with its type."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
