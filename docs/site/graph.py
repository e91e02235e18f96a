"""A picture of a cell: gates and states on the left, operations, new states on the right.

The picture is drawn from the cell's expressions. A value that is used twice is drawn once. A number
stands in the operation that takes it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from html import escape

from rnnc.cellspec.cell import CellSpec
from rnnc.cellspec.expression.node import Node

COLUMN, ROW, HEIGHT = 64, 24, 16  # from column to column, from row to row, and of a box
_LETTER, _MARGIN = 6.2, 8
_SWEEPS = 12  # over the columns, to order their rows
# Of boxes, by the operation; a called gate multiplies by its matrix.
_KINDS = {"call": "function", "units": "function", "gate": "gate"}
_SIGNS = {"*": "×", "/": "÷", "-": "−", "neg": "−", "&": "and", "|": "or", "~": "not"}


@dataclass(eq=False)
class Place:
    """A box of the picture, or a bend of a long line.

    Attributes:
        label: what it says; empty for a bend.
        kind: gate, state, param, function, sum or new, which chooses its colour.
        column: its column, from the left.
        sources: the places on the left that lines come from.
        row: its place in the column, from the top, maybe between two rows.
    """

    label: str
    kind: str
    column: int
    sources: list[Place] = field(default_factory=list)
    row: float = 0.0

    @property
    def x(self) -> float:
        """The middle of the box."""
        return _MARGIN + COLUMN / 2 + self.column * COLUMN

    @property
    def y(self) -> float:
        """The middle of the box."""
        return _MARGIN + HEIGHT / 2 + self.row * ROW

    @property
    def width(self) -> float:
        """Of the box; 0 for a bend."""
        return max(len(self.label) * _LETTER + 8, 18) if self.label else 0


def picture_of(cell: CellSpec) -> str:
    """The SVG of a cell, without a style: its classes are those of the site's style sheet.

    Args:
        cell: the cell.
    """
    places = _arranged(_places(cell))
    width = max(p.x for p in places) + COLUMN / 2 + _MARGIN
    height = max(p.y for p in places) + HEIGHT / 2 + _MARGIN
    lines = [_line(source, p) for p in places for source in p.sources]
    boxes = [_box(p) for p in places if p.label]
    return (
        f'<svg class="graph" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img"'
        f' aria-label="The operations of {escape(cell.name)}">'
        f'<path class="line" d="{" ".join(lines)}"/>{"".join(boxes)}</svg>'
    )


def _places(cell: CellSpec) -> list[Place]:
    """The boxes in columns, with bends where a line crosses a column."""
    kinds = {
        **{declared.name: "gate" for declared in (*cell.gates, *cell.inputs)},
        **{declared.name: "state" for declared in cell.states},
        **{declared.name: "param" for declared in (*cell.params, *cell.constants)},
    }
    boxes: dict[Node, Place] = {}
    for node in _in_order(cell.updates):
        if node.is_symbol:
            boxes[node] = Place(node.name, kinds.get(node.name, "param"), 0)
        elif node.args and not all(arg.is_number for arg in node.args):
            sources = [boxes[arg] for arg in dict.fromkeys(node.args) if arg in boxes]
            column = 1 + max(source.column for source in sources)
            kind = _KINDS.get(node.op, "sum")
            boxes[node] = Place(_label(node), kind, column, sources)
    last = 1 + max(box.column for box in boxes.values())
    news = [
        Place(f"{state.name}′", "new", last, [boxes[update]] if update in boxes else [])
        for state, update in zip(cell.states, cell.updates, strict=True)
    ]
    places = [*boxes.values(), *news]
    return [*places, *_bends(places)]


def _in_order(roots: tuple[Node, ...]) -> list[Node]:
    """All nodes, each after its arguments."""
    found: dict[Node, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        later = [arg for arg in node.args if arg not in found]
        if node in found:
            continue
        if later:
            stack += [node, *reversed(later)]
        else:
            found[node] = None
    return list(found)


def _label(node: Node) -> str:
    """What a box says: a function's name, or a sign with the number beside it."""
    if node.op == "call":
        numbers = [str(arg) for arg in node.args if arg.is_number]
        return node.name + (f" {', '.join(numbers)}" if numbers and len(node.args) < 4 else "")
    if node.op in ("gate", "units"):
        return node.name
    if node.op == "member":
        return f"[{node.value}]"
    if node.op == "**":
        return f"^{node.value}"
    sign = _SIGNS.get(node.op, node.op)
    if len(node.args) == 2:
        left, right = node.args
        if left.is_number:
            return f"{left} {sign}"
        if right.is_number:
            return f"{sign} {right}"
    return sign


def _bends(places: list[Place]) -> list[Place]:
    """Replace each line over several columns by a chain of bends, shared by lines of one source."""
    found: dict[tuple[int, int], Place] = {}
    for place in places:
        for n, source in enumerate(place.sources):
            for column in range(source.column + 1, place.column):
                key = (id(place.sources[n]), column)
                found.setdefault(key, Place("", "bend", column, [place.sources[n]]))
                place.sources[n] = found[key]
    return list(found.values())


def _arranged(places: list[Place]) -> list[Place]:
    """Rows in which few lines cross: each place near the middle of its neighbours."""
    columns = [
        list(column)
        for _, column in itertools.groupby(
            sorted(places, key=lambda p: p.column), key=lambda p: p.column
        )
    ]
    targets: dict[int, list[Place]] = {id(p): [] for p in places}
    for place in places:
        for source in place.sources:
            targets[id(source)].append(place)
    tallest = max(map(len, columns))
    for column in columns:
        _spread(column, tallest)
    for sweep in range(_SWEEPS):
        right = sweep % 2 == 0
        for column in columns if right else reversed(columns):
            for place in column:
                near = place.sources if right else targets[id(place)]
                if near:
                    place.row = sum(p.row for p in near) / len(near)
            column.sort(key=lambda p: p.row)
            _spread(column, tallest)
    return places


def _spread(column: list[Place], tallest: int) -> None:
    """Keep a column's order, and move places apart until none overlap."""
    for n, place in enumerate(column):
        lowest = column[n - 1].row + 1 if n else 0.0
        place.row = max(place.row, lowest)
    # Too low: push back up.
    limit = tallest - 1.0
    for place in reversed(column):
        place.row = min(place.row, limit)
        limit = place.row - 1


def _line(source: Place, place: Place) -> str:
    start, end = source.x + source.width / 2, place.x - place.width / 2
    middle = (start + end) / 2
    return (
        f"M{start:.0f} {source.y:.0f}"
        f"C{middle:.0f} {source.y:.0f} {middle:.0f} {place.y:.0f} {end:.0f} {place.y:.0f}"
    )


def _box(place: Place) -> str:
    return (
        f'<g class="{place.kind}"><rect x="{place.x - place.width / 2:.0f}"'
        f' y="{place.y - HEIGHT / 2:.0f}" width="{place.width:.0f}" height="{HEIGHT}" rx="4"/>'
        f'<text x="{place.x:.0f}" y="{place.y + 4:.0f}">{escape(place.label)}</text></g>'
    )
