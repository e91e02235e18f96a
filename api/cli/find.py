"""Finds the cells that the command line names, in the library or in a user's file."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

from .. import cells
from ..cellspec.errors import CellError, kind_of
from ..define import Cell
from ..load import BrokenCell, as_cell_error, cells_of, load_file, said


def find_cell(target: str) -> Cell:
    """The one cell that a word names.

    Args:
        target: a cell's name, `file.py:name`, or a file that has one cell.

    Raises:
        CellError: there is none, there are several, or the file does not load.
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
    (only,) = found
    if isinstance(only, BrokenCell):
        raise only.error
    return only


def find_cells(target: str) -> list[Cell | BrokenCell]:
    """All cells that a word names, with those of a file that have an error.

    Args:
        target: a cell's name, `file.py:name`, or a file.

    Raises:
        CellError: there is none, or the file does not load.
    """
    file, colon, name = target.rpartition(":")
    if colon and file.endswith(".py"):
        return [_named(_loaded(Path(file)), file, name)]
    if target.endswith(".py") or "/" in target or "\\" in target:
        found = cells_of(_loaded(Path(target)))
        if not found:
            raise CellError(
                "no cell among the names of the file",
                "at least one function decorated with @rnnc.cell",
                "@rnnc.cell above a function whose arguments are annotated Gate, State, …",
                where=target,
            )
        return list(found.values())
    with redirect_stdout(sys.stderr):  # modules of other packages may print
        return [cells.get(target)]


def _named(module: ModuleType, file: str, name: str) -> Cell | BrokenCell:
    found = cells_of(module)
    if name in found:
        return found[name]
    other = getattr(module, name, None)
    what = "" if other is None else f"; there it is {kind_of(other)}"
    raise CellError(
        f"no cell of the name {name!r}{what}",
        f"one of the file's cells: {', '.join(found)}" if found else "a file that defines cells",
        f"{file}:{next(iter(_nearest(name, found) or found))}"
        if found
        else "@rnnc.cell above a function whose arguments are annotated Gate, State, …",
        where=file,
    )


def _loaded(path: Path) -> ModuleType:
    code = _read(path)
    try:
        return load_file(path, code)
    except (CellError, KeyboardInterrupt):
        raise
    except BaseException as error:  # GeneratorExit, or a class of the file's own
        raise as_cell_error(error, path) from error


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
            said(error), "a file that can be read", "chmod +r, or another file", where=str(path)
        ) from error


def _nearest(word: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(word.lower(), list(known), n=3)
