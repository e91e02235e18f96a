"""Equations of a cell as presentation MathML, made from the expression tree."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..cellspec.cell import CellSpec
from ..cellspec.expression.node import Node, symbol, tree_size
from ..cellspec.expression.sharing import Loop, Naming, naming
from .mathml_nodes import NodePrinter
from .terms import Terms


@dataclass(frozen=True)
class Equation:
    """One equation.

    Attributes:
        name: of the gate, drawn input, state or shared value on its left side.
        math: its MathML element.
    """

    name: str
    math: str


def equations_of(cell: CellSpec, terms: Terms, prefix: str = "e-") -> tuple[Equation, ...]:
    """One MathML element for each gate and drawn input, then each shared value, then each state.

    Args:
        cell: the cell.
        terms: numbers the terms. Each term's element has the class `term` and `data-t` with its
            number, and an id of its own.
        prefix: of the ids.

    Example:
        >>> import rnnc
        >>> from rnnc.report.mathml import equations_of
        >>> from rnnc.report.terms import Terms
        >>> cell = rnnc.cells.elman
        >>> [e.name for e in equations_of(cell, Terms.of(cell))]
        ['g', 'h']
    """
    printer = _Printer(cell, terms, prefix)
    found = [Equation(g.name, printer.gate(g.name)) for g in cell.gates]
    found += [Equation(n, printer.drawn(n, str(draw))) for n, draw in cell.drawn.items()]
    # Each new value is written in terms of the smaller new values.
    states = sorted(zip(cell.states, cell.updates, strict=True), key=lambda s: tree_size(s[1]))
    news = {u: printer.timed(f"{s.name}_next") for s, u in states if not u.is_leaf}
    written = naming(cell.updates, variables=cell.variable_names)
    named = {**printer.names(written), **news}
    found += printer.statements(written, named, leave_out=news)
    for state, update in states:
        left = printer.timed(f"{state.name}_next")
        # A loop's result has the name that the loop's equations give it.
        own = {update: printer.plain(written.names[update])} if update.op == "result" else {}
        found.append(Equation(state.name, printer.row(state.name, left, update, named | own)))
    return tuple(found)


class _Printer(NodePrinter):
    """The printer of whole equations."""

    def names(self, written: Naming) -> dict[Node, Any]:
        """The elements of all names."""
        return {node: self.plain(name) for node, name in written.names.items()}

    def statements(
        self, written: Naming, named: Mapping[Node, Any], leave_out: Collection[Node] = ()
    ) -> Iterator[Equation]:
        """The equations of shared values; a loop has a head, the equations of a pass, and an end.

        Args:
            written: how the values are written.
            named: the elements of names.
            leave_out: values that have equations of their own.
        """
        for statement in written.statements:
            if isinstance(statement, Loop):
                yield from self._loop(statement, named)
            elif statement.node not in leave_out:
                left = self.plain(statement.name)
                math = self.row(statement.name, left, statement.node, named)
                yield Equation(statement.name, math)

    def _loop(self, loop: Loop, named: Mapping[Node, Any]) -> Iterator[Equation]:
        name, body = loop.names[0], loop.body
        self.equation, self.count, self.named = name, 0, named
        left = self._listed(map(self.plain, loop.names))
        starts = self._listed(map(self._print, loop.starts))
        times = self._text("mtext", f", then {loop.passes} times:")
        yield Equation(name, self._whole(left, self._mrow(starts, times)))
        outer, self.symbols, self.depth = self.symbols, {**body.symbols}, self.depth + 1
        inside = self.names(body)
        yield from self.statements(body, inside)
        self.equation, self.count, self.named = f"{name}-new", 0, inside
        new = self._listed(map(self._print, body.roots))
        left = self._listed(map(self.plain, loop.names))
        yield Equation(name, self._whole(left, new, sign="←"))
        self.symbols, self.depth = outer, self.depth - 1

    def _listed(self, elements: Iterable[Any]) -> Any:
        """Elements with commas between them."""
        first, *rest = elements
        return self._mrow(first, *(e for element in rest for e in (self._mo(","), element)))

    def row(self, name: str, left: Any, value: Node, named: Mapping[Node, Any]) -> str:
        self.named = {node: shown for node, shown in named.items() if node is not value}
        self.equation, self.count = name, 0
        known = named.get(value)
        right = self._print(value) if known is None or value in self.terms.numbers else known
        return self._whole(left.cloneNode(True), right)

    def gate(self, name: str) -> str:
        self.equation, self.count, self.named = name, 0, {}
        gate = next(g for g in self.cell.gates if g.name == name)
        parts = []
        if gate.input:
            parts.append(self._mrow(self._index("W", name), self.plain("x", "t")))
        for letter, pairs in (("R", self.cell.dense_pairs), ("u", self.cell.diagonal_pairs)):
            own = [p for p in pairs if p.gate == name]
            for pair in own:
                index = name if len(own) == 1 else f"{name}, {pair.source}"
                dot = [self._mo("⊙")] if letter == "u" else []
                factor = self.plain("y") if name in self.cell.called else self.timed(pair.source)
                parts.append(self._mrow(self._index(letter, index), *dot, factor))
        if gate.bias:
            parts.append(self._index("b", name))
        right = self.dom.createElement("mrow")
        for number, part in enumerate(parts):
            if number:
                right.appendChild(self._mo("+"))
            right.appendChild(self._marked(part, symbol(name)))
        left = self._marked(self.timed(name), symbol(name))
        if name in self.cell.called:
            brackets = self._mo("("), self.plain("y"), self._mo(")")
            left = self._mrow(left, self._mo("\u2061"), *brackets)
        return self._whole(left, right)

    def drawn(self, name: str, distribution: str) -> str:
        self.equation, self.count, self.named = name, 0, {}
        left = self._marked(self.timed(name), symbol(name))
        return self._whole(left, self._text("mtext", distribution), sign="∼")

    def _whole(self, left: Any, right: Any, sign: str = "=") -> str:
        math = self.dom.createElement("math")
        math.setAttribute("display", "block")
        indents = [self._indent() for _ in range(self.depth)]
        math.appendChild(self._mrow(*indents, left, self._mo(sign), right))
        return str(math.toxml())
