"""Equations of a cell as text and as LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..expression.graph import rewritten
from ..expression.lines import INDENT, LONGEST_LINE, assigned, listed
from ..expression.node import Node, ordered, symbol
from ..expression.sharing import LOOPS, Loop, Named, Naming, naming
from ..expression.text import to_text
from .latex import Letters, draw_row, latex_rows
from .order import in_order

if TYPE_CHECKING:
    from ..cell import CellSpec
    from ..pairs import Pair


def equation_lines(cell: CellSpec) -> tuple[str, ...]:
    """One line per gate, then per drawn input, then per state, after the lines it refers to."""
    lines = []
    for gate in cell.gates:
        terms = [f"x_{gate.name}"] if gate.input else []
        dense = [p for p in cell.dense_pairs if p.gate == gate.name]
        diagonal = [p for p in cell.diagonal_pairs if p.gate == gate.name]
        for p in dense:
            terms.append(f"{_weight('R', p.gate, p.source, len(dense))} {_multiplied(p)}")
        for p in diagonal:
            terms.append(f"{_weight('u', p.gate, p.source, len(diagonal))} * {_multiplied(p)}")
        if gate.bias:
            terms.append(f"b_{gate.name}")
        name = f"{gate.name}(y)" if gate.name in cell.called else gate.name
        lines.append(f"{name} = {' + '.join(terms)}")
    lines += [f"{name} ~ {draw}" for name, draw in cell.drawn.items()]
    names, written, order = _named_rows(cell, "'")
    new = [f"{name}' = {value}" for name, value in zip(names, _values(written), strict=True)]
    named = written.named()
    for item in order:
        lines += [new[item]] if isinstance(item, int) else _statement_lines(item, named)
    return tuple(lines)


def _statement_lines(
    statement: Named | Loop, named: Mapping[Node, str], depth: int = 0
) -> Iterator[str]:
    """The line of a shared value; of a loop, the lines that start it and those of a pass.

    Args:
        statement: of a scope.
        named: all names of the scope.
        depth: the number of loops around it.
    """
    if isinstance(statement, Named):
        yield f"{statement.name} = {to_text(statement.node, named)}"
        return
    yield from _head(statement, named, depth + 1)
    body = statement.body
    inside = body.named()
    for inner in body.statements:
        yield from (f"  {line}" for line in _statement_lines(inner, inside, depth + 1))
    yield from (f"  {line}" for line in _end(statement, depth + 2))


def _head(loop: Loop, named: Mapping[Node, str], depth: int) -> list[str]:
    """The lines that start a loop."""
    pairs = zip(loop.names, loop.starts, strict=True)
    starts = [f"{name} = {named.get(start) or to_text(start)}" for name, start in pairs]
    return listed(f"repeat {loop.passes} times, from ", starts, ":", depth)


def _end(loop: Loop, depth: int) -> list[str]:
    """The lines of the carried values after a pass."""
    return assigned(loop.names, _values(loop.body), depth)


def _values(written: Naming) -> list[str]:
    """The text of each root."""
    named = written.named()
    return [named.get(root) or to_text(root, named) for root in written.roots]


def equation_terms(cell: CellSpec) -> tuple[tuple[Node, ...], ...]:
    """For each of the equation lines, the nodes of the cell's updates that it writes."""
    news = _news(cell, "'")
    written: dict[Node, Node] = {}
    for update in cell.updates:
        others = {other: new for other, new in news.items() if other is not update}
        nodes = ordered([update], stop=others)
        pairs = zip(rewritten(nodes, others), nodes, strict=True)
        written.update((new, node) for new, node in pairs if node not in others)
    _, rows, order = _named_rows(cell, "'")
    given = ((symbol(name),) for name in (*(gate.name for gate in cell.gates), *cell.drawn))
    lines: list[tuple[Node, ...]] = [*given]
    for item in order:
        if isinstance(item, int):
            lines.append(_below([rows.roots[item]], rows, written.get))
        else:
            lines += _statement_terms(item, rows, written.get)
    return tuple(lines)


def _statement_terms(
    statement: Named | Loop,
    scope: Naming,
    term: Callable[[Node], Node | None],
    depth: int = 0,
) -> Iterator[tuple[Node, ...]]:
    """For each line of a statement, the terms that it writes.

    Args:
        statement: of the scope.
        scope: how the lines are written.
        term: the term that a node of the scope writes, if any.
        depth: the number of loops around it.
    """
    if isinstance(statement, Named):
        yield _below([statement.node], scope, term)
        return
    yield from [_below(statement.starts, scope, term)] * len(
        _head(statement, scope.named(), depth + 1)
    )
    body = statement.body

    def inner(node: Node) -> Node | None:
        return body.symbols.get(node) if node.is_symbol else node

    for each in body.statements:
        yield from _statement_terms(each, body, inner, depth + 1)
    yield from [_below(body.roots, body, inner)] * len(_end(statement, depth + 2))


def _below(
    values: Iterable[Node], scope: Naming, term: Callable[[Node], Node | None]
) -> tuple[Node, ...]:
    """The terms of values, without those of values that have names."""
    values = tuple(dict.fromkeys(values))
    below = ordered((a for v in values for a in v.args), stop=scope.names)
    own = (v for v in values if v not in scope.names or v.op not in LOOPS)
    nodes = (n for n in (*below, *own) if n.op not in LOOPS and not n.is_number)
    terms = (term(node) for node in nodes)
    return tuple(dict.fromkeys(found for found in terms if found is not None))


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
                factor = rf"{letters.letter(p.source)}_{{t-1}}"
                factor = "y" if gate.name in cell.called else factor
                terms.append(rf"{weight}_{{{index}}}{product}{factor}")
        if gate.bias:
            terms.append(f"b_{{{name}}}")
        argument = "(y)" if gate.name in cell.called else ""
        rows.append(f"{name}_t{argument} &= {' + '.join(terms)}")
    rows += [draw_row(name, draw, letters) for name, draw in cell.drawn.items()]
    names, written, order = _named_rows(cell, "_next")
    left = [f"{letters.letter(name)}_t" for name in names]
    rows += latex_rows(left, written, letters, order)
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _named_rows(
    cell: CellSpec, ending: str
) -> tuple[list[str], Naming, tuple[Named | Loop | int, ...]]:
    """The states of `_by_reference`, how their new values are written, and in which order."""
    news, variables = _news(cell, ending), cell.variable_names
    rows = _by_reference(cell, news)
    inner = [node for node in variables if node not in news]
    short = dict(zip(rewritten(inner, news), (variables[node] for node in inner), strict=True))
    names = [name for name, _ in rows]
    longest = max(len(name) for name in (*short.values(), *(f"{n}'" for n in names), "t1000"))
    width = LONGEST_LINE - INDENT - longest - len(" = ")  # a printed cell indents its lines
    written = naming((value for _, value in rows), variables=short, width=width)
    return names, written, tuple(in_order(written, news.values()))


def _news(cell: CellSpec, ending: str) -> dict[Node, Node]:
    """The symbol of each new value that computes something."""
    states = zip(cell.states, cell.updates, strict=True)
    return {u: symbol(f"{state.name}{ending}") for state, u in states if not u.is_leaf}


def _by_reference(cell: CellSpec, news: Mapping[Node, Node]) -> list[tuple[str, Node]]:
    """Each state's new value, in terms of the other new values, which come first."""
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


def _multiplied(pair: Pair) -> str:
    """Return what a weight multiplies: a state, or of a called gate its argument y."""
    return "y" if pair.source.endswith("()") else pair.source


def _weight(letter: str, gate: str, source: str, count: int) -> str:
    return f"{letter}_{gate}" if count == 1 else f"{letter}_{gate},{source}"
