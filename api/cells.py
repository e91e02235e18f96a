"""`rnnc.cells`: the cells of the library and of other packages, by name.

Another package adds a cell with an entry point of the group `rnnc.cells`.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from .cellspec.cell import CellSpec
from .cellspec.errors import CellError, kind_of
from .cellspec.library import NAMES, load
from .define import Cell
from .runtime.process.caller import warn


def names() -> tuple[str, ...]:
    """The names of all cells in `rnnc.cells`, sorted.

    Example:
        >>> import rnnc
        >>> "lstm" in rnnc.cells.names()
        True
    """
    return tuple(sorted({*NAMES, *_third_party()}))


@cache
def get(name: str) -> Cell:
    """The cell with a name; `rnnc.cells.lstm` is `rnnc.cells.get("lstm")`.

    Args:
        name: a name of `rnnc.cells.names()`.

    Raises:
        CellError: there is no cell with this name, it is not a string, or an entry point does not
            load a cell.

    Example:
        >>> import rnnc
        >>> rnnc.cells.get("lstm") is rnnc.cells.lstm
        True
    """
    if not isinstance(name, str):
        raise CellError(kind_of(name), "the name of a cell", 'rnnc.cells.get("lstm")', "rnnc.cells")
    if name in NAMES:
        return Cell.of(load(name))
    points = _third_party()
    if name not in points:
        near = difflib.get_close_matches(name.lower(), names())
        raise CellError(
            f"no cell of the name {name!r}",
            "a name that `rnnc list` shows, or a cell in a file",
            " or ".join(near) or "my_cell.py:my_cell",
            where="rnnc.cells",
        )
    try:
        found = points[name].load()
    except (Exception, SystemExit) as error:
        # The import of another package may raise anything.
        raise CellError(
            f"the entry point {points[name].value!r}, which raises {type(error).__name__}: {error}",
            "a cell",
            "a repaired or removed package",
            where="rnnc.cells",
        ) from error
    if not isinstance(found, CellSpec):
        raise CellError(
            f"the entry point {points[name].value!r}, {kind_of(found)}",
            "a cell",
            "a function decorated with @rnnc.cell",
            where="rnnc.cells",
        )
    return Cell.of(found)


@cache
def _third_party() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group="rnnc.cells"):
        taken = "a cell of the library" if point.name in NAMES else ""
        if point.name in found:
            taken = f"the entry point {found[point.name].value!r}"
        if taken:
            warn(
                f"rnnc.cells: the entry point {point.value!r} is not used, since its name"
                f" {point.name!r} is that of {taken}"
            )
        else:
            found[point.name] = point
    return found


def __getattr__(name: str) -> Cell:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return get(name)
    except CellError as error:
        raise AttributeError(str(error)) from error


def __dir__() -> list[str]:
    return [*names(), "get", "names"]
