"""Conversion between expressions and text, for people and for JSON.

The text is Python: arithmetic, comparisons and the functions of the table. It is read with Python's
parser and an explicit list of what is allowed, never with `eval`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from .. import refuse
from ..functions import TABLE
from ..stages.nodes import gate_call, is_together, reduced, reduction
from ..stages.table import REDUCTIONS
from . import node as nodes
from .node import Node, make
from .powers import raised
from .spell import EXACT, PYTHON, spell

_RELATIONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitAnd: "&",
    ast.BitOr: "|",
}


def to_text(value: Node, named: Mapping[Node, str] | None = None) -> str:
    """The expression as a cell's author would write it.

    Args:
        value: the expression.
        named: names for nodes in it.

    Example:
        >>> from rnnc.cellspec.expression.text import from_text, to_text
        >>> to_text(from_text("sigmoid(f)*c + sigmoid(i)*tanh(z)"))
        'sigmoid(f)*c + sigmoid(i)*tanh(z)'
    """
    return spell(value, PYTHON, named)


def to_exact_text(value: Node, named: Mapping[Node, str] | None = None) -> str:
    """The text that `from_text` reads back as the same node, except for tags."""
    return spell(value, EXACT, named)


def from_text(text: str, named: Mapping[str, Node] | None = None) -> Node:
    """The expression of a text, in its order and grouping.

    Each call of a function whose gradient is not linear becomes a node of its own.

    Args:
        text: an expression of the language.
        named: nodes for some names; other names become symbols.

    Raises:
        CellError: the text is not an expression of the language.
    """
    try:
        # Python limits the digits of a number and the depth of brackets.
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        if "too many nested" in str(error.msg):
            raise refuse.deep_text(text) from error
        raise refuse.text(text, f"column {error.offset}") from error
    except (RecursionError, MemoryError) as error:
        raise refuse.deep_text(text) from error
    except ValueError as error:
        raise refuse.text(text, str(error)) from error
    try:
        return _Reader(text, named or {}).read(tree.body)
    except RecursionError as error:
        # Python parses deeper texts where its limit of recursion was raised.
        raise refuse.deep_text(text) from error


class _Reader:
    """Reads one text: a chain of operators in a loop, brackets by recursion."""

    def __init__(self, text: str, named: Mapping[str, Node]) -> None:
        self.text = text
        self.named = named

    def read(self, node: ast.expr) -> Node:
        chain: list[tuple[str, ast.expr]] = []
        while isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            chain.append((_OPERATORS[type(node.op)], node.right))
            node = node.left
        value = self._operand(node)
        for operator, right in reversed(chain):
            value = self._joined(operator, value, self.read(right))
        return value

    def _operand(self, node: ast.expr) -> Node:
        match node:
            case ast.Constant(value=bool() as value):
                return nodes.truth(value)
            case ast.Constant(value=int() | float() as value):
                return nodes.number(value)
            case ast.Name(id=name):
                return self.named.get(name) or nodes.symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return nodes.negative(self._arithmetic(self.read(operand)))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return nodes.negated(self._condition(self.read(operand)))
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                sides = self._arithmetic(self.read(base)), self._arithmetic(self.read(exponent))
                return raised(*sides)
            case ast.Compare(left=left, ops=[relation], comparators=[right]) if (
                type(relation) in _RELATIONS
            ):
                sides = self._arithmetic(self.read(left)), self._arithmetic(self.read(right))
                return nodes.compare(_RELATIONS[type(relation)], *sides)
            case ast.Subscript(value=value, slice=ast.Constant(value=int() as place)):
                return self._member(self.read(value), place, node)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=named) if (
                name in REDUCTIONS
            ):
                return self._reduction(name, argument, named)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if (
                name not in TABLE
            ):
                return gate_call(name, self._arithmetic(self.read(argument)))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in TABLE:
                expected = TABLE[name].arguments
                if len(arguments) == len(expected):
                    values = map(self.read, arguments)
                    kinds = (
                        self._condition if a == "condition" else self._arithmetic for a in expected
                    )
                    checked = (kind(v) for kind, v in zip(kinds, values, strict=True))
                    return TABLE[name].node(*checked)
        raise refuse.text(self.text, _shown(node))

    def _reduction(self, name: str, argument: ast.expr, named: list[ast.keyword]) -> Node:
        values = argument.elts if isinstance(argument, ast.Tuple) else [argument]
        match named:
            case []:
                eps = None
            case [ast.keyword(arg="eps", value=ast.Constant(value=int() | float() as eps))]:
                pass
            case _:
                raise refuse.text(self.text, _shown(named[0].value))
        if not REDUCTIONS[name].is_norm and (named or len(values) != 1):
            raise refuse.text(self.text, _shown(argument))
        found = reduction(name, [self._arithmetic(self.read(value)) for value in values], eps)
        return found[0] if len(found) == 1 else found[0].args[0]

    def _member(self, together: Node, place: int, node: ast.expr) -> Node:
        if not is_together(together) or not 0 <= place < len(reduced(together)):
            raise refuse.text(self.text, _shown(node))
        return make("member", place, (together,))

    def _joined(self, operator: str, left: Node, right: Node) -> Node:
        if operator in ("&", "|"):
            return nodes.binary(operator, self._condition(left), self._condition(right))
        return nodes.binary(operator, self._arithmetic(left), self._arithmetic(right))

    def _condition(self, value: Node) -> Node:
        # A symbol is a number, so it is not a condition.
        if not value.is_condition:
            raise refuse.text(self.text, f"`{value}` in the place of a condition")
        return value

    def _arithmetic(self, value: Node) -> Node:
        if value.is_condition:
            raise refuse.text(self.text, f"the condition `{value}` in the place of a number")
        if is_together(value):
            raise refuse.text(self.text, f"`{value}`, several values in the place of one")
        return value


def _shown(node: ast.expr) -> str:
    shown = ast.unparse(node)
    return shown if len(shown) <= 80 else f"column {node.col_offset}"
