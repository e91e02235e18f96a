"""Equations of a cell as text and as LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..expression.graph import rewritten
from ..expression.node import Node, ordered, symbol
from ..expression.sharing import LONGEST_LINE, named_values
from ..expression.text import to_text
from .latex import Letters, latex

if TYPE_CHECKING:
    from ..cell import CellSpec


def equation_lines(cell: CellSpec) -> tuple[str, ...]:
    """One line per gate, then one per state, each after the lines that it refers to."""
    lines = []
    for gate in cell.gates:
        terms = [f"x_{gate.name}"] if gate.input else []
        dense = [p for p in cell.dense_pairs if p.gate == gate.name]
        diagonal = [p for p in cell.diagonal_pairs if p.gate == gate.name]
        for p in dense:
            terms.append(f"{_weight('R', p.gate, p.source, len(dense))} {p.source}")
        for p in diagonal:
            terms.append(f"{_weight('u', p.gate, p.source, len(diagonal))} * {p.source}")
        if gate.bias:
            terms.append(f"b_{gate.name}")
        lines.append(f"{gate.name} = {' + '.join(terms)}")
    rows, named = _named_rows(cell, "'")
    lines += [f"{name} = {to_text(value, named)}" for value, name in named.items()]
    return (*lines, *(f"{n}' = {named.get(v) or to_text(v, named)}" for n, v in rows))


def equation_terms(cell: CellSpec) -> tuple[tuple[Node, ...], ...]:
    """For each of the equation lines, the nodes of the cell's updates that it writes."""
    states = zip(cell.states, cell.updates, strict=True)
    news = {s.name: update for s, update in states if not update.is_leaf}
    written: dict[Node, Node] = {}
    for update in cell.updates:
        others = {u: symbol(f"{s}'") for s, u in news.items() if u is not update}
        nodes = ordered([update], stop=others)
        pairs = zip(rewritten(nodes, others), nodes, strict=True)
        written.update((new, node) for new, node in pairs if node not in others)
    states_rows, named = _named_rows(cell, "'")
    rows = [value for _, value in states_rows]
    found: list[tuple[Node, ...]] = [(symbol(gate.name),) for gate in cell.gates]
    for value in (*named, *rows):
        below = [n for n in ordered(value.args, stop=named) if n not in named]
        terms = (*below, value)
        found.append(tuple(written[n] for n in terms if n in written and not n.is_number))
    return tuple(found)


def latex_block(cell: CellSpec) -> str:
    """The equations as an `aligned` block of LaTeX."""
    letters = Letters({d.name for d in (*cell.gates, *cell.inputs)}, {s.name for s in cell.states})
    rows = []
    for gate in cell.gates:
        name = letters.letter(gate.name)
        terms = [rf"W_{{{name}}} x_t"] if gate.input else []
        for pairs, weight, product in (
            (cell.dense_pairs, "R", " "),
            (cell.diagonal_pairs, "u", r" \odot "),
        ):
            own = [p for p in pairs if p.gate == gate.name]
            for p in own:
                index = name if len(own) == 1 else f"{name},{letters.letter(p.source)}"
                terms.append(rf"{weight}_{{{index}}}{product}{letters.letter(p.source)}_{{t-1}}")
        if gate.bias:
            terms.append(f"b_{{{name}}}")
        rows.append(f"{name}_t &= {' + '.join(terms)}")
    values, names = _named_rows(cell, "_next")
    by_author = {*cell.variable_names.values()}
    named = {
        node: letters.letter(name) if name in by_author else f"v_{{{name[1:]}}}"
        for node, name in names.items()
    }
    rows += [f"{name} &= {latex(value, letters, named)}" for value, name in named.items()]
    rows += [
        f"{letters.letter(name)}_t &= {named.get(value) or latex(value, letters, named)}"
        for name, value in values
    ]
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _named_rows(cell: CellSpec, ending: str) -> tuple[list[tuple[str, Node]], dict[Node, str]]:
    """The rows of `_by_reference`, and the values in them that have lines of their own."""
    rows, variables = _by_reference(cell, ending), cell.variable_names
    news = {
        update: symbol(f"{state.name}{ending}")
        for state, update in zip(cell.states, cell.updates, strict=True)
        if not update.is_leaf
    }
    inner = [node for node in variables if node not in news]
    short = dict(zip(rewritten(inner, news), (variables[node] for node in inner), strict=True))
    longest = max(len(name) for name in (*short.values(), *(f"{n}'" for n, _ in rows), "t1000"))
    named = named_values((v for _, v in rows), short, width=LONGEST_LINE - longest - len(" = "))
    return rows, named


def _by_reference(cell: CellSpec, ending: str) -> list[tuple[str, Node]]:
    """Each state's new value, in terms of the other new values, which come first."""
    news = {
        update: symbol(f"{state.name}{ending}")
        for state, update in zip(cell.states, cell.updates, strict=True)
        if not update.is_leaf
    }
    # A new value contains only smaller new values, so they are sorted by size.
    sizes = _sizes(cell.updates)
    rows = []
    for state, update in zip(cell.states, cell.updates, strict=True):
        others = {other: new for other, new in news.items() if other is not update}
        (short,) = rewritten([update], others)
        rows.append((sizes[update], state.name, short))
    return [(name, short) for _, name, short in sorted(rows, key=lambda row: row[0])]


def _sizes(roots: tuple[Node, ...]) -> dict[Node, int]:
    sizes: dict[Node, int] = {}
    for node in ordered(roots):
        sizes[node] = 1 + sum(sizes[a] for a in node.args)
    return sizes


def _weight(letter: str, gate: str, source: str, count: int) -> str:
    return f"{letter}_{gate}" if count == 1 else f"{letter}_{gate},{source}"
