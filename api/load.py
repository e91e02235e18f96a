"""Runs a user's file to find its cells; errors in the file become messages with a line number."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from .cellspec.cell import CellSpec
from .cellspec.errors import CellError
from .define import STAND_IN, Cell
from .errors import RnncError


class BrokenCell:
    """The substitute for a cell that has an error; each use of it raises that error."""

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
        code: the file's content.

    Raises:
        CellError: the file does not run to its end.
    """
    module = ModuleType(f"rnnc_file_{path.stem}")
    module.__file__ = str(path)
    # Dataclasses look up their annotations here. The name must not hide another module.
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
        # An importer would leave a compiled copy beside the file.
        with redirect_stdout(sys.stderr):
            exec(compile(code, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        # A line that uses a broken cell fails because of that cell.
        raise broken[0].error if broken else as_cell_error(error, path) from error
    finally:
        STAND_IN.reset(token)
        sys.path.remove(folder)
    return module


def cells_of(module: ModuleType) -> dict[str, Cell | BrokenCell]:
    """The cells of a file by their names in it; a cell with two names counts once.

    Args:
        module: the file, as `load_file` gives it.
    """
    found: dict[str, Cell | BrokenCell] = {}
    for name, value in vars(module).items():
        if isinstance(value, CellSpec) and value not in found.values():
            found[name] = value if isinstance(value, Cell) else Cell.of(value)
        elif isinstance(value, BrokenCell) and all(value is not other for other in found.values()):
            found[name] = value
    return found


# The message for an error that ends the file: the first row whose type matches.
_ADVICE: tuple[tuple[type[BaseException], str, str], ...] = (
    (SyntaxError, "a file that Python can read", "lines that `python -m py_compile` accepts"),
    (
        ModuleNotFoundError,
        "a module that this Python has, or that lies beside the file",
        f"`{sys.executable} -m pip install …`, if it is a package",
    ),
    (ImportError, "a name that the module has", "one of its names"),
    (
        BaseException,
        "a file that loads: rnnc runs it to find its cells",
        'statements that are not definitions under `if __name__ == "__main__":`',
    ),
)


def as_cell_error(error: BaseException, path: Path) -> CellError:
    """Return the error that ended a user's file, with the line of the file.

    Args:
        error: what the file raised.
        path: the file.
    """
    # `rnnc.cells.name` turns the error of an unknown name into an AttributeError.
    own = error.__cause__ if isinstance(error, AttributeError) else error
    line = _line(error, path)
    if isinstance(own, RnncError):
        where = own.where if ".py:" in own.where else f"{own.where}, {line}"
        return CellError(own.found, own.wanted, own.write, where)
    wanted, write = next((w, a) for kind, w, a in _ADVICE if isinstance(error, kind))
    return CellError(said(error), wanted, write, line)


def _line(error: BaseException, path: Path) -> str:
    """The file and the last line of it that the error came through."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or path}:{error.lineno or 1}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def said(error: BaseException) -> str:
    """An error on one line, with its type."""
    try:
        text = getattr(error, "msg", None) or str(error)
    except Exception as failed:  # of the file's own class
        text = f"its text is not known: {type(failed).__name__}"
    return " ".join(f"{type(error).__name__}: {text}".split()).removesuffix(":")
