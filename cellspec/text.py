"""Expressions as text, for people and for JSON, and back again.

The text is the language itself: Python's arithmetic, comparisons and the functions of the table.
Reading goes through Python's parser and an explicit list of what is allowed, never `eval`.
"""

from __future__ import annotations

import ast
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from .errors import CellError
from .functions import TABLE
from .tracer import factored

_RELATIONS: dict[type[ast.cmpop], Any] = {
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
}


class _TextPrinter(StrPrinter):  # type: ignore[misc]
    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))

    def _print_Relational(self, expr: sympy.Rel) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_And(self, expr: sympy.And) -> str:
        return "(" + " & ".join(self._print(a) for a in sorted(expr.args, key=str)) + ")"

    def _print_Or(self, expr: sympy.Or) -> str:
        return "(" + " | ".join(self._print(a) for a in sorted(expr.args, key=str)) + ")"


def to_text(value: sympy.Basic) -> str:
    """The expression as a cell's author would write it; `from_text` reads it back.

    Example:
        >>> from rnnc.cellspec.text import from_text, to_text
        >>> to_text(from_text("sigmoid(f)*c + sigmoid(i)*tanh(z)"))
        'c*sigmoid(f) + tanh(z)*sigmoid(i)'
    """
    return str(_TextPrinter().doprint(value))


def from_text(text: str) -> sympy.Expr:
    """The expression that a text stands for.

    Raises:
        CellError: the text is no expression of the language.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise _refusal(text, f"column {error.offset}") from error
    with factored():
        return _read(tree.body, text)


def _read(node: ast.expr, text: str) -> Any:
    """Sums and products are gathered before they are built, as sympy keeps them: in pairs, some
    would come out in another form than the expression that was printed.
    """
    match node:
        case ast.Constant(value=bool() as value):
            return sympy.true if value else sympy.false
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Constant(value=float() as value):
            # As it was printed: what became a whole float in arithmetic stays one.
            return sympy.Float(value)
        case ast.Name(id=name):
            return sympy.Symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, text)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return sympy.Not(_read(operand, text))
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return sympy.Add(*_terms(node, text))
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            return sympy.Mul(*_factors(node, text))
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return _read(base, text) ** _read(exponent, text)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return sympy.And(_read(left, text), _read(right, text))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return sympy.Or(_read(left, text), _read(right, text))
        case ast.Compare(left=left, ops=[relation], comparators=[right]) if (
            type(relation) in _RELATIONS
        ):
            return _RELATIONS[type(relation)](_read(left, text), _read(right, text))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in TABLE:
            if len(arguments) == len(TABLE[name].arguments):
                return TABLE[name].of(*(_read(a, text) for a in arguments))
    raise _refusal(text, ast.unparse(node))


def _terms(node: ast.expr, text: str) -> list[Any]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_terms(left, text), *_terms(right, text)]
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return [*_terms(left, text), -_read(right, text)]
    return [_read(node, text)]


def _factors(node: ast.expr, text: str) -> list[Any]:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return [sympy.Integer(-1), *_factors(operand, text)]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return [*_factors(left, text), *_factors(right, text)]
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return [*_factors(left, text), *(1 / f for f in _factors(right, text))]
    return [_read(node, text)]


def _refusal(text: str, place: str) -> CellError:
    return CellError(
        f"`{text}`, at {place}",
        "an expression of + - * / **, comparisons and the functions of rnnc's table",
        "for example sigmoid(f)*c + sigmoid(i)*tanh(z)",
    )
