"""The cells that `rnnc list` shows, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

from .. import cells
from ..cellspec.cell import CellSpec, Pair
from ..cellspec.declare import Declaration
from ..codegen.derive import derive
from ..codegen.shape import DIRECTIONS, PlanError
from ..errors import RnncError
from .console import PIPE_WIDTH, print_lines, print_table, terminal

# Columns that a paper's name needs at least.
_LEAST_PAPER = 16
# Letters of the names of a cell's gates, states or params.
_LONGEST_NAMES = 28


class _Listed(NamedTuple):
    """A cell, and the operations of its equations forward and backward; None without kernels."""

    cell: CellSpec
    operations: tuple[int, int] | None


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


def _all_cells() -> tuple[list[_Listed], dict[str, RnncError]]:
    """The cells, and the errors of those that do not load, by name."""
    found, broken = [], {}
    with redirect_stdout(sys.stderr):  # modules of other packages may print
        for name in cells.names():
            try:
                found.append(_listed(cells.get(name)))
            except RnncError as error:
                broken[name] = error
    return found, broken


def _listed(cell: CellSpec) -> _Listed:
    try:
        derived = derive(cell)
    except PlanError:
        return _Listed(cell, None)
    return _Listed(cell, (derived.forward.operations, derived.backward.operations))


def _as_data(listed: _Listed) -> dict[str, Any]:
    cell = listed.cell
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
        "operations": dict(zip(DIRECTIONS, listed.operations, strict=True))
        if listed.operations
        else None,
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
    for cell, operations in found:
        row = [
            f"[cyan]{escape(cell.name)}[/]",
            *map(_names, (cell.gates, cell.states, cell.params)),
            _recurrence(cell),
            " + ".join(map(str, operations)) if operations else "-",
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
    return cell.recurrence.kind if cell.recurrence.kind == "affine" else weights or "diagonal"


def _sources(cell: CellSpec, pairs: Sequence[Pair]) -> str:
    """The states that feed weights, and "the step" where values of it do."""
    sources = list(dict.fromkeys(p.source for p in pairs if p.gate not in cell.called))
    if any(p.gate in cell.called for p in pairs):
        sources += ["and the step"] if sources else ["the step"]
    return "" if sources == [cell.states[0].name] else f" from {' '.join(sources)}"
