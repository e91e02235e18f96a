"""Uses of a traced value that have no meaning in a cell: each raises an error with a remedy."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import refuse
from ..errors import kind_of
from ..expression.node import Node, tree_size
from .place import expression_at_caller


class Refusing:
    """A traced value that refuses uses without a meaning; the base of numbers and conditions."""

    expression: Node
    owner: str

    def __bool__(self) -> NoReturn:
        raise refuse.decision(shown(self))

    def _not_a_number(self, *_: object) -> NoReturn:
        raise refuse.python_number(shown(self), expression_at_caller())

    __float__ = __int__ = __index__ = __complex__ = _not_a_number

    def _not_a_sequence(self, *_: object) -> NoReturn:
        raise refuse.sequence(shown(self), expression_at_caller())

    __iter__ = __len__ = __getitem__ = __setitem__ = __delitem__ = __contains__ = _not_a_sequence

    def __format__(self, specification: str) -> str:
        if specification:
            raise refuse.formatted(shown(self), specification)
        return repr(self)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: object, operands: Any = (), options: object = None
    ) -> NoReturn:
        name = getattr(function, "__name__", str(function))
        # A tensor on the left of an operator asks torch first.
        if name in _TORCH_OPERATORS:
            _check_operands(operands)
        raise refuse.foreign_call("torch", name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # With a scalar of numpy on the left, Python asks numpy first, for the operators too.
        operator = _UFUNCS.get(ufunc.__name__)
        # In a comparison, numpy passes its scalar as an array without dimensions.
        inputs = tuple(map(_python_number, inputs))
        scalars = all(isinstance(x, Refusing | numbers.Real) for x in inputs)
        if operator and method == "__call__" and scalars and "out" not in options:
            first, *rest = inputs
            own = first if isinstance(first, Refusing) else number_of(first)
            if isinstance(first, Refusing):
                return getattr(own, f"__{operator}__")(*rest)
            mirrored = _MIRRORED.get(operator, f"r{operator}")
            return getattr(rest[0], f"__{mirrored}__")(own)
        if operator and method == "__call__":
            _check_operands(inputs)
        raise refuse.foreign_call("numpy", ufunc.__name__)

    def __array_function__(
        self, function: Any, types: object, operands: object, options: object
    ) -> NoReturn:
        raise refuse.foreign_call("numpy", function.__name__)

    def _sympy_(self) -> NoReturn:
        raise refuse.foreign_call("sympy", "sympify")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise refuse.attribute(shown(self), name)

    def __repr__(self) -> str:
        return repr(self.expression)


_UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "true_divide": "truediv",
    "power": "pow",
    "remainder": "mod",
    "floor_divide": "floordiv",
    "negative": "neg",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
}
# As torch calls the functions behind Python's operators, except those of matrix products.
_TORCH_OPERATORS = frozenset("add sub mul div pow remainder __floordiv__ gt ge lt le eq ne".split())
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def no_operator(symbol: str) -> tuple[Any, Any]:
    """Two methods that refuse an operator: with the traced value on the left, and on the right.

    Args:
        symbol: how Python writes the operator.
    """

    def method(self: Refusing, other: object) -> NoReturn:
        raise refuse.operator(symbol, shown(self), shown(other))

    def mirrored(self: Refusing, other: object) -> NoReturn:
        raise refuse.operator(symbol, shown(other), shown(self))

    return method, mirrored


def number_of(value: object) -> float:
    """A number of Python or numpy as Python's int or float."""
    if isinstance(value, numbers.Integral):
        return int(value)
    assert isinstance(value, numbers.Real)
    return float(value)


def _python_number(value: Any) -> Any:
    """The number in an array of numpy without dimensions; any other value as it is."""
    if isinstance(value, Refusing) or getattr(value, "shape", None) != ():
        return value
    return value.item()


def _check_operands(operands: Sequence[object]) -> None:
    """Refuse the first operand that is neither a traced value nor a number."""
    for operand in operands:
        if not isinstance(operand, Refusing | numbers.Real):
            raise refuse.operand(shown(operand), operand)


def shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, Refusing):
        text = repr(value)
        if value.expression.is_condition and text[0] == "(":
            text = text[1:-1]
        return (
            f"`{text}`" if len(text) <= 200 else f"a value of {tree_size(value.expression)} nodes"
        )
    text = repr(value)
    if len(text) <= 80 and "\n" not in text:
        return text
    return kind_of(value)
