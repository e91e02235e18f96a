"""Expressions of a cell as presentation MathML, made from the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sympy.printing.mathml import MathMLPresentationPrinter

from ..cellspec.cell import CellSpec
from ..cellspec.expression.node import Node
from ..cellspec.expression.spell import ATOM, POWER, PRODUCT, SIGN, SUM
from ..cellspec.functions import TABLE
from ..cellspec.printing.words import needs_sign
from ..cellspec.stages.nodes import reduced
from .terms import Terms

# sympy's documents do not escape their texts.
_RELATIONS = {"<": "&lt;", "<=": "≤", ">=": "≥", "==": "=", "!=": "≠", "&": "∧", "|": "∨"}
_GREEK_WORDS = {r"\sigma": "σ", r"\log\sigma": "log σ"}
_BEFORE = "t−1"  # the index of a previous state
_TERM = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "neg": PRODUCT, "**": POWER}


class NodePrinter(MathMLPresentationPrinter):  # type: ignore[misc]
    """sympy's printer, with the nodes of a cell as expressions."""

    def __init__(self, cell: CellSpec, terms: Terms, prefix: str) -> None:
        super().__init__()
        self.cell = cell
        self.terms = terms
        self.prefix = prefix
        self.now = {d.name for d in (*cell.gates, *cell.inputs)}
        self.states = {s.name for s in cell.states}
        self.named: Mapping[Node, Any] = {}
        self.symbols: Mapping[Node, Node] = {}  # of the cell, for those of a loop's body
        self.depth = 0  # of the loops around an equation
        self.equation = ""
        self.count = 0

    # Names.

    def plain(self, name: str, *after: str) -> Any:
        """A name with its index, as sympy writes symbols: Greek letters, subscripts."""
        base, _, index = name.partition("_")
        word = self._text("mi", _letter(base))
        below = ", ".join([*([index] if index else []), *after])
        if not below:
            return word
        return self._pair("msub", word, self._words(below))

    def timed(self, name: str) -> Any:
        """A gate, an input or a new state at time t, a previous state at time t - 1."""
        if name.endswith("_next"):
            return self.plain(name[:-5], "t")
        time = ("t",) if name in self.now else (_BEFORE,) if name in self.states else ()
        return self.plain(name, *time)

    def _index(self, letter: str, index: str) -> Any:
        return self.plain(f"{letter}_{index}")

    def _words(self, text: str) -> Any:
        row = self.dom.createElement("mrow")
        for place, part in enumerate(text.split(", ")):
            if place:
                row.appendChild(self._mo(","))
            if part == _BEFORE:
                for sign in (self._text("mi", "t"), self._mo("−"), self._text("mn", "1")):
                    row.appendChild(sign)
            else:
                row.appendChild(self._text("mi", _letter(part)))
        return row

    # Nodes. sympy's `_print` finds this method by the name of the class.

    def _print_Node(self, node: Node) -> Any:
        node = self.symbols.get(node, node)
        if node in self.named:
            return self._marked(self.named[node].cloneNode(True), node)
        return self._marked(self._spelled(node), node)

    def _spelled(self, node: Node) -> Any:
        op, args = node.op, node.args
        if op == "symbol":
            return self.timed(node.name)
        if op in ("number", "true", "false"):
            return self._number(node)
        if op == "call" and node.name == "pow":
            return self._pair("msup", self._within(args[0], ATOM), self._print(args[1]))
        if op == "call":
            return self._call(node)
        if op in ("gate", "units"):
            return self._stage(node)
        if op == "member":
            place = self._text("mn", str(int(str(node.value)) + 1))
            return self._pair("msub", self._within(args[0], ATOM), place)
        if op == "/":
            return self._pair("mfrac", self._print(args[0]), self._print(args[1]))
        if op == "**":
            base = self._within(args[0], ATOM)
            return self._pair("msup", base, self._text("mn", f"{node.value}".replace("-", "−")))
        if op == "neg":
            return self._mrow(self._mo("−"), self._within(args[0], PRODUCT, sign=False))
        if op == "~":
            return self._mrow(self._mo("¬"), self._within(args[0], ATOM))
        if op == "*":
            left, right = self._within(args[0], PRODUCT), self._within(args[1], SIGN, sign=False)
            return self._mrow(left, self._times(*args), right)
        if op in ("+", "-"):
            left = self._within(args[0], SUM)
            right = self._within(args[1], PRODUCT, sign=False)
            return self._mrow(left, self._mo("−" if op == "-" else "+"), right)
        left, right = (self._within(a, SUM) for a in args)
        return self._mrow(left, self._mo(_RELATIONS.get(op, op)), right)

    def _times(self, left: Node, right: Node) -> Any:
        if needs_sign(left, right, _SIGMA):
            return self._mo("·")
        times = self._mo("\u2062")
        times.setAttribute("lspace", "0.17em")
        times.setAttribute("rspace", "0")
        return times

    def _number(self, node: Node) -> Any:
        if node.value is None:
            return self._text("mtext", node.op)
        return self._text("mn", repr(node.value).replace("-", "−"))

    def _call(self, node: Node) -> Any:
        latex = TABLE[node.name].latex
        name = _GREEK_WORDS.get(latex) or latex.strip("\\")
        name = node.name if not name or "\\" in name or "{" in name else name
        return self._applied(self._text("mi", name), node.args)

    def _stage(self, node: Node) -> Any:
        """A called gate, or a reduction, whose eps is not shown."""
        if node.op == "gate":
            return self._applied(self.timed(node.name), node.args)
        return self._applied(self._text("mi", node.name.replace("_", " ")), reduced(node))

    def _applied(self, function: Any, arguments: Sequence[Node]) -> Any:
        """The element of a function before its arguments in brackets."""
        inside = []
        for place, argument in enumerate(arguments):
            inside += [*([self._mo(",")] if place else []), self._print(argument)]
        return self._mrow(function, self._mo("\u2061"), self._mo("("), *inside, self._mo(")"))

    def _within(self, node: Node, at_least: int, sign: bool = True) -> Any:
        shown = self._print(node)
        if node in self.named:
            return shown
        negative = node.op == "neg" or (node.is_number and str(node.value).startswith("-"))
        binding = _TERM.get(node.op, SUM if node.is_condition and node.args else ATOM)
        if node.op == "/":  # a fraction needs no brackets, but below a power
            binding = SIGN
        if node.op == "call" and node.name == "pow":
            binding = POWER
        if binding >= at_least and (sign or not negative):
            return shown
        return self._mrow(self._mo("("), shown, self._mo(")"))

    # Elements.

    def _marked(self, element: Any, node: Node) -> Any:
        """The element as a term, with an id of its own."""
        number = self.terms.numbers.get(node)
        if number is None:
            return element
        if element.tagName == "mo":
            element = self._mrow(element)
        if element.getAttribute("data-t"):
            element = self._mrow(element)
        colour = self.terms.colours.get(node)
        element.setAttribute("id", f"{self.prefix}{self.equation}-{self.count}")
        element.setAttribute("data-t", number)
        element.setAttribute("class", "term" if colour is None else f"term c{colour}")
        self.count += 1
        return element

    def _mrow(self, *children: Any) -> Any:
        row = self.dom.createElement("mrow")
        for child in children:
            row.appendChild(child)
        return row

    def _pair(self, kind: str, first: Any, second: Any) -> Any:
        element = self.dom.createElement(kind)
        element.appendChild(first)
        element.appendChild(second)
        return element

    def _indent(self) -> Any:
        space = self.dom.createElement("mspace")
        space.setAttribute("width", "2em")
        return space

    def _mo(self, sign: str) -> Any:
        return self._text("mo", sign)

    def _text(self, kind: str, text: str) -> Any:
        element = self.dom.createElement(kind)
        element.appendChild(self.dom.createTextNode(text))
        return element


_SIGMA = dict(
    zip(
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau"
        " upsilon phi chi psi omega".split(),
        "αβγδεζηθικλμνξπρστυφχψω",
        strict=True,
    )
)


def _letter(word: str) -> str:
    return _SIGMA.get(word, word)
