"""What a cell's function computes with: symbols that refuse whatever a kernel cannot do."""

from __future__ import annotations

import numbers
from typing import Any, NoReturn

from .. import refuse
from ..errors import CellError, kind_of
from ..expression.node import (
    Node,
    binary,
    both,
    call,
    compare,
    either,
    negated,
    negative,
    number,
    power,
    tree_size,
)


class Arithmetic:
    """The operators of a traced value, for type checkers and for `Tracer`.

    `Gate`, `State`, `Param` and `Constant` are annotations in a cell's signature and
    declarations as its defaults. While the function runs, each is a `Tracer`. Results are `Any`
    to type checkers, so that a body may rebind a declared name, as in `c = sigmoid(f) * c`.
    """

    def __add__(self, other: Arithmetic | float) -> Any:
        return combine("+", self, other)

    def __radd__(self, other: float) -> Any:
        return combine("+", other, self)

    def __sub__(self, other: Arithmetic | float) -> Any:
        return combine("-", self, other)

    def __rsub__(self, other: float) -> Any:
        return combine("-", other, self)

    def __mul__(self, other: Arithmetic | float) -> Any:
        return combine("*", self, other)

    def __rmul__(self, other: float) -> Any:
        return combine("*", other, self)

    def __truediv__(self, other: Arithmetic | float) -> Any:
        return combine("/", self, other)

    def __rtruediv__(self, other: float) -> Any:
        return combine("/", other, self)

    def __pow__(self, exponent: float) -> Any:
        return Tracer(_powered(self, exponent), shared_owner(self))

    def __neg__(self) -> Any:
        return Tracer(negative(expression(self)), shared_owner(self))

    def __pos__(self) -> Any:
        return Tracer(expression(self), shared_owner(self))

    def __abs__(self) -> Any:
        return Tracer(call("abs", expression(self)), shared_owner(self))

    def __lt__(self, other: Arithmetic | float) -> Any:
        return compared("<", self, other)

    def __le__(self, other: Arithmetic | float) -> Any:
        return compared("<=", self, other)

    def __gt__(self, other: Arithmetic | float) -> Any:
        return compared(">", self, other)

    def __ge__(self, other: Arithmetic | float) -> Any:
        return compared(">=", self, other)


class _Refusing:
    """Turns each use that has no meaning for a symbol into an error that names the remedy."""

    expression: Node
    owner: str

    def __bool__(self) -> NoReturn:
        raise refuse.decision(shown(self))

    def _not_a_number(self, *_: object) -> NoReturn:
        raise refuse.python_number(shown(self))

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = _not_a_number
    __floor__ = __ceil__ = _not_a_number

    def _not_a_sequence(self, *_: object) -> NoReturn:
        raise refuse.sequence(shown(self))

    __iter__ = __len__ = __getitem__ = __contains__ = _not_a_sequence

    def __format__(self, specification: str) -> str:
        if specification:
            raise refuse.formatted(shown(self), specification)
        return repr(self)

    @classmethod
    def __torch_function__(cls, function: Any, *_: object, **__: object) -> NoReturn:
        raise refuse.foreign_call("torch", getattr(function, "__name__", str(function)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # A scalar of numpy on the left asks numpy first: its operators are Python's.
        operator = _UFUNCS.get(ufunc.__name__)
        # In a comparison numpy gives its scalar as an array of no dimension.
        inputs = tuple(map(_scalar, inputs))
        scalars = all(isinstance(x, _Refusing | numbers.Real) for x in inputs)
        if operator and method == "__call__" and scalars and "out" not in options:
            first, *rest = inputs
            own = first if isinstance(first, _Refusing) else number_of(first)
            if isinstance(first, _Refusing):
                return getattr(own, f"__{operator}__")(*rest)
            mirrored = _MIRRORED.get(operator, f"r{operator}")
            return getattr(rest[0], f"__{mirrored}__")(own)
        raise refuse.foreign_call("numpy", ufunc.__name__)

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
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _no_operator(symbol: str) -> Any:
    def method(self: _Refusing, other: object) -> NoReturn:
        raise refuse.operator(symbol, shown(self), shown(other))

    return method


def _no_reversed(symbol: str) -> Any:
    def method(self: _Refusing, other: object) -> NoReturn:
        raise refuse.operator(symbol, shown(other), shown(self))

    return method


class Tracer(_Refusing, Arithmetic):
    """One number of one unit of a cell while its function runs: a node."""

    def __init__(self, value: Node, owner: str) -> None:
        self.expression = value
        self.owner = owner

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return compared("==", self, other)

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return compared("!=", self, other)

    __hash__ = object.__hash__

    def __rpow__(self, base: object) -> NoReturn:
        raise refuse.power_of(shown(base), shown(self), base)

    __mod__, __rmod__ = _no_operator("%"), _no_reversed("%")
    __floordiv__, __rfloordiv__ = _no_operator("//"), _no_reversed("//")
    __matmul__, __rmatmul__ = _no_operator("@"), _no_reversed("@")
    __lshift__, __rlshift__ = _no_operator("<<"), _no_reversed("<<")
    __rshift__, __rrshift__ = _no_operator(">>"), _no_reversed(">>")
    __and__, __rand__ = _no_operator("&"), _no_reversed("&")
    __or__, __ror__ = _no_operator("|"), _no_reversed("|")
    __xor__, __rxor__ = _no_operator("^"), _no_reversed("^")

    def __invert__(self) -> NoReturn:
        raise refuse.operator("~", "", shown(self))


class Condition(_Refusing):
    """A comparison of traced values, for `where`; & and | join two, ~ negates one."""

    def __init__(self, value: Node, owner: str) -> None:
        self.expression = value
        self.owner = owner

    def __and__(self, other: Condition) -> Condition:
        return Condition(both(self.expression, _condition(other)), shared_owner(self, other))

    def __or__(self, other: Condition) -> Condition:
        return Condition(either(self.expression, _condition(other)), shared_owner(self, other))

    def __invert__(self) -> Condition:
        return Condition(negated(self.expression), self.owner)

    def _joined(self, other: object) -> NoReturn:
        _condition(other)
        raise AssertionError  # pragma: no cover

    __rand__ = __ror__ = _joined

    def _not_arithmetic(self, *_: object) -> NoReturn:
        raise refuse.condition(shown(self))

    def _no_factor(self, other: object) -> NoReturn:
        raise refuse.condition(shown(self), _factor(other))

    __add__ = __radd__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = _not_arithmetic
    __mul__ = __rmul__ = _no_factor
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _not_arithmetic
    __lt__ = __le__ = __gt__ = __ge__ = _not_arithmetic
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __matmul__ = __rmatmul__ = _not_arithmetic

    def _equality(self, relation: str, other: object) -> NoReturn:
        if isinstance(other, Condition):
            raise refuse.conditions_compared(relation, shown(self), shown(other))
        self._not_arithmetic()

    def __eq__(self, other: object) -> NoReturn:
        self._equality("==", other)

    def __ne__(self, other: object) -> NoReturn:
        self._equality("!=", other)

    def __xor__(self, other: object) -> NoReturn:
        self._equality("^", other)

    __rxor__ = __xor__
    __hash__ = object.__hash__


def expression(value: object) -> Node:
    """The node of an operand: a traced value or a finite number of Python or numpy."""
    if isinstance(value, Tracer):
        return value.expression
    if isinstance(value, Condition):
        raise refuse.condition(shown(value))
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise refuse.operand(shown(value), value)
    return number(number_of(value))


def number_of(value: object) -> float:
    """A number of Python or numpy as Python's int or float."""
    if isinstance(value, numbers.Integral):
        return int(value)
    assert isinstance(value, numbers.Real)
    return float(value)


def _scalar(value: Any) -> Any:
    """What numpy holds in no dimension, as the number."""
    if isinstance(value, _Refusing) or getattr(value, "shape", None) != ():
        return value
    return value.item()


def combine(symbol: str, a: object, b: object) -> Tracer:
    """Join two operands by an operator, checking that both belong to the same cell."""
    if isinstance(a, Condition) or isinstance(b, Condition):
        own, other = (a, b) if isinstance(a, Condition) else (b, a)
        raise refuse.condition(shown(own), _factor(other) if symbol == "*" else "")
    left, right = expression(a), expression(b)
    if symbol == "/" and right.is_number and right.value == 0:
        raise CellError(f"{shown(a)} / 0", "a divisor that is not zero", "another divisor")
    return Tracer(binary(symbol, left, right), shared_owner(a, b))


def compared(relation: str, a: object, b: object) -> Condition:
    """Compare two operands."""
    return Condition(compare(relation, expression(a), expression(b)), shared_owner(a, b))


def _powered(base: Arithmetic, exponent: object) -> Node:
    if isinstance(exponent, numbers.Real) and not isinstance(exponent, bool):
        value = number_of(exponent)
        if value == int(value):
            return power(expression(base), int(value))
        if abs(value) == 0.5:
            return call("sqrt" if value > 0 else "rsqrt", expression(base))
    raise refuse.exponent(shown(base), shown(exponent), exponent)


def shared_owner(*operands: object) -> str:
    """The cell that all traced operands belong to; an error if they belong to two."""
    owners = {x.owner: x for x in operands if isinstance(x, Tracer | Condition)}
    if len(owners) > 1:
        foreign = list(owners.values())[-1]
        raise CellError(
            f"the symbol {foreign} of another cell, {foreign.owner!r}",
            "symbols of this cell's own signature",
            "each symbol as an argument of this function",
        )
    return next(iter(owners))


def _factor(value: object) -> str:
    """What a condition is multiplied with, where it can stand in the place of a number."""
    return "" if isinstance(value, Condition) else shown(value)


def _condition(value: object) -> Node:
    if isinstance(value, Condition):
        return value.expression
    raise CellError(
        f"{shown(value)} joined to a condition",
        "two comparisons",
        "(a > 0) & (b > 0), in brackets",
    )


def shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, _Refusing):
        text = repr(value)
        if isinstance(value, Condition) and text[0] == "(":
            text = text[1:-1]
        return (
            f"`{text}`" if len(text) <= 200 else f"a value of {tree_size(value.expression)} nodes"
        )
    text = repr(value)
    if len(text) <= 80 and "\n" not in text:
        return text
    return kind_of(value)
