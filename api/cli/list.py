"""The cells that `rnnc list` shows, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple, Self

from rich.markup import escape
from rich.table import Table

from .. import cells
from ..cellspec.cell import CellSpec
from ..cellspec.declare import Declaration
from ..cellspec.pairs import Pair
from ..cellspec.stages.words import further_in_words
from ..codegen.derive import Pointwise, derive
from ..codegen.shape import PlanError
from ..errors import RnncError
from .console import PIPE_WIDTH, print_lines, print_table, terminal

# Columns that a paper's name needs at least.
_LEAST_PAPER = 16
# Letters of the names of a cell's gates, states or params.
_LONGEST_NAMES = 28


def print_list() -> None:
    """Print a table of all cells, and a line for each one that does not load."""
    found, broken = _all_cells()
    _print_table(found)
    for name, error in broken.items():
        print_lines(f"{name}: {error.found}")


def print_json() -> None:
    """Print all cells as JSON; a cell that does not load has an error in place of its parts."""
    found, broken = _all_cells()
    errors = [{"name": name, "error": error.found} for name, error in broken.items()]
    print_lines(json.dumps([*map(_as_data, found), *errors], indent=2))


class _Listed(NamedTuple):
    """A cell, and its derived pointwise functions; None for a cell that only the reference runs."""

    cell: CellSpec
    pointwise: Pointwise | None

    @classmethod
    def of(cls, cell: CellSpec) -> Self:
        """A cell of the list."""
        try:
            return cls(cell, derive(cell))
        except PlanError:
            return cls(cell, None)

    @property
    def operations(self) -> str:
        """The operations of both directions."""
        if self.pointwise is None:
            return "-"
        return f"{self.pointwise.forward.operations} + {self.pointwise.backward.operations}"


def _all_cells() -> tuple[list[_Listed], dict[str, RnncError]]:
    """The derived cells, and the errors of those that do not load, by name."""
    found, broken = [], {}
    with redirect_stdout(sys.stderr):  # modules of other packages may print
        for name in cells.names():
            try:
                found.append(_Listed.of(cells.get(name)))
            except RnncError as error:
                broken[name] = error
    return found, broken


def _as_data(listed: _Listed) -> dict[str, Any]:
    cell, pointwise = listed
    return {
        "name": cell.name,
        "doc": cell.doc,
        "gates": [gate.name for gate in cell.gates],
        "states": [state.name for state in cell.states],
        "params": [param.name for param in cell.params],
        "constants": cell.constant_values,
        "dense": [[pair.gate, pair.source] for pair in cell.dense_pairs],
        "diagonal": [[pair.gate, pair.source] for pair in cell.diagonal_pairs],
        "recurrence": {
            "kind": cell.recurrence.kind,
            "reason": cell.recurrence.reason,
            "backward": cell.recurrence.adjoint,
        },
        "further_exchanges": cell.levels.further,
        "operations": pointwise
        and {
            "forward": pointwise.forward.operations,
            "backward": pointwise.backward.operations,
        },
    }


def _print_table(found: Sequence[_Listed]) -> None:
    """Print the table; a narrow terminal cuts the papers, or leaves them out."""
    console = terminal()
    wide = console.options.update(width=PIPE_WIDTH)
    room = console.width - console.measure(_cell_table(found, 0), options=wide).maximum
    print_table(_cell_table(found, max(room, 0)))


def _cell_table(found: Sequence[_Listed], room: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "gates", "states", "params", "recurrence"):
        table.add_column(column, no_wrap=column == "name")
    table.add_column("forward + backward", justify="right")
    if room >= _LEAST_PAPER:
        table.add_column("paper", no_wrap=True, overflow="ellipsis", max_width=room - 2)
    for listed in found:
        cell = listed.cell
        row = [
            f"[cyan]{escape(cell.name)}[/]",
            _names(cell.gates),
            _names(cell.states),
            _names(cell.params),
            _recurrence(cell),
            listed.operations,
            escape(next(iter(cell.doc.splitlines()), "")),
        ]
        table.add_row(*row[: len(table.columns)])
    return table


def _names(declared: Sequence[Declaration]) -> str:
    """Names in a row; of many the first, the last and the number."""
    text = " ".join(d.name for d in declared)
    if len(text) <= _LONGEST_NAMES:
        return text
    return f"{declared[0].name} … {declared[-1].name} ({len(declared)})"


def _recurrence(cell: CellSpec) -> str:
    """The kind of recurrence, with the sources of its weights where they are not the output."""
    kinds = [("dense", cell.dense_pairs), ("diagonal", cell.diagonal_pairs)]
    weights = ", ".join(kind + _sources(cell, pairs) for kind, pairs in kinds if pairs)
    kind = "affine" if cell.recurrence.kind == "affine" else weights or "diagonal"
    return ", ".join([kind, *filter(None, [further_in_words(cell)])])


def _sources(cell: CellSpec, pairs: Sequence[Pair]) -> str:
    """The states that feed weights, but the first where it alone does."""
    sources = list(dict.fromkeys(p.source for p in pairs if p.gate not in cell.called))
    return "" if sources in ([], [cell.states[0].name]) else f" from {' '.join(sources)}"
