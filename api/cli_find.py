"""Which cells a word on the command line means: one of the library, or those of a user's file."""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from . import cells
from .cell import Cell
from .cellspec.cell import CellSpec
from .cellspec.errors import CellError
from .runtime.errors import TensorError


def find_cell(target: str) -> Cell:
    """The one cell that a word means.

    Args:
        target: a cell's name, `file.py:name`, or a file that has one cell.

    Raises:
        CellError: there is none, or there are several; or the file does not load.
    """
    found = find_cells(target)
    if len(found) > 1:
        names = [c.name for c in found]
        raise CellError(
            f"{len(found)} cells: {', '.join(names)}",
            "one cell",
            f"{target}:{names[0]}",
            where=target,
        )
    return found[0]


def find_cells(target: str) -> list[Cell]:
    """All cells that a word means: one, or a file's.

    Args:
        target: a cell's name, `file.py:name`, or a file.

    Raises:
        CellError: there is none, or the file does not load.
    """
    file, colon, name = target.rpartition(":")
    if colon and file.endswith(".py"):
        return [_named(_load(Path(file)), file, name)]
    if target.endswith(".py") or "/" in target or "\\" in target:
        found = _cells_of(_load(Path(target)))
        if not found:
            raise CellError(
                "no cell among the names of the file",
                "at least one function under @rnnc.cell",
                "@rnnc.cell above a function whose arguments are annotated Gate, State, …",
                where=target,
            )
        return list(found.values())
    return [cells.get(target)]


def _named(module: ModuleType, file: str, name: str) -> Cell:
    found = _cells_of(module)
    if name in found:
        return found[name]
    other = getattr(module, name, None)
    what = "" if other is None else f"; there it is a {type(other).__name__}"
    raise CellError(
        f"no cell of the name {name!r}{what}",
        f"one of the file's cells: {', '.join(found)}" if found else "a file that defines cells",
        f"{file}:{next(iter(_nearest(name, found) or found))}"
        if found
        else "@rnnc.cell above a function whose arguments are annotated Gate, State, …",
        where=file,
    )


def _cells_of(module: ModuleType) -> dict[str, Cell]:
    """The cells of a file by their names there; one that has two names counts once."""
    found: dict[str, Cell] = {}
    for name, value in vars(module).items():
        if isinstance(value, CellSpec) and value not in found.values():
            found[name] = value if isinstance(value, Cell) else Cell.of(value)
    return found


def _load(path: Path) -> ModuleType:
    """Run a user's file as Python would, with its folder first on the path.

    Everything that goes wrong in it becomes an error with file and line.
    """
    code = _read(path)
    module = ModuleType(f"rnnc_file_{path.stem}")
    module.__file__ = str(path)
    # Where dataclasses look up their annotations; under a name that hides no other module.
    sys.modules[module.__name__] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        # Not by an importer, which would leave a compiled copy beside the file.
        exec(compile(code, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        raise CellError(
            f"{type(error).__name__}: {error.msg}",
            "a file that Python can read",
            f"lines that `python -m py_compile {path}` accepts",
            where=f"{error.filename or path}:{error.lineno or 1}",
        ) from error
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        raise CellError(
            _said(error),
            "a module that this Python has, or that lies beside the file"
            if missing
            else f"a name that the module {error.name} has",
            f"`{sys.executable} -m pip install …`, if it is a package" if missing else "that name",
            where=_place(error, path),
        ) from error
    except (Exception, SystemExit) as error:
        own = error.__cause__ if isinstance(error, AttributeError) else error
        if isinstance(own, CellError):
            place = own.where if ".py:" in own.where else _place(error, path)
            raise CellError(own.found, own.wanted, own.write, place) from error
        if isinstance(own, TensorError):
            found = f"{own.argument}, {own.found}"
            raise CellError(found, own.wanted, own.write, _place(error, path)) from error
        raise CellError(
            _said(error),
            "a file that loads: rnnc runs it to find its cells",
            'whatever is no definition under `if __name__ == "__main__":`',
            where=_place(error, path),
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def _read(path: Path) -> bytes:
    if not path.is_file():
        close = _nearest(path.name, [p.name for p in path.parent.glob("*.py") if p.is_file()])
        raise CellError(
            "a folder" if path.is_dir() else "no such file",
            "a Python file that defines cells",
            " or ".join(str(path.parent / name) for name in close) or "my_cell.py",
            where=str(path),
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise CellError(
            _said(error), "a file that can be read", "chmod +r, or another file", where=str(path)
        ) from error


def _place(error: BaseException, path: Path) -> str:
    """The last line of the user's file that the error came through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def _nearest(word: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(word.lower(), list(known), n=3)
