"""Cells by their names, which `rnnc.cells` looks up: it knows those of other packages too."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from .errors import CellError, kind_of

if TYPE_CHECKING:
    from .cell import CellSpec


class CellsByName(Protocol):
    """A collection of cells, such as `rnnc.cells`."""

    def names(self) -> tuple[str, ...]:
        """Return the names of all cells."""

    def get(self, name: str) -> CellSpec:
        """Return the cell with a name."""


_imports: list[Callable[[], CellsByName]] = []


def find_cells_in(import_cells: Callable[[], CellsByName]) -> None:
    """Register what finds cells by name.

    Args:
        import_cells: called when the first name is looked up, since it takes time.
    """
    _imports[:] = [import_cells]


def is_named(name: str) -> bool:
    """Return whether there is a cell with a name.

    Args:
        name: of a cell, or any other.
    """
    return name in _imports[0]().names()


def named_cell(name: str) -> CellSpec:
    """Find the cell with a name.

    Args:
        name: of `rnnc.cells.names()`.

    Raises:
        CellError: it is no name, or no cell has it: the message lists the nearest names. Or its
            package does not load.
    """
    wanted = "a cell, or a name of rnnc.cells.names()"
    if not isinstance(name, str):
        raise CellError(kind_of(name), wanted, "a function decorated with @rnnc.cell", "cell")
    cells = _imports[0]()
    try:
        # First, since each call of a scan may look a name up: a list of all names takes longer.
        return cells.get(name)
    except CellError as error:
        if name in cells.names():  # of a package that does not load
            raise
        near = difflib.get_close_matches(name.lower(), cells.names())
        raise CellError(
            f"no cell of the name {name!r}",
            wanted,
            " or ".join([*map(repr, near), "a function decorated with @rnnc.cell"]),
            where="cell",
        ) from error
