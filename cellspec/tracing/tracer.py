"""Traced values: the numbers and conditions that a cell's function computes with."""

from __future__ import annotations

import numbers
from typing import Any, NoReturn

from .. import refuse
from ..arguments import signatures
from ..declare import State
from ..errors import CellError
from ..expression import node as nodes
from ..expression.node import Node
from ..expression.powers import raised
from ..stages import refuse as refuse_stage
from ..stages.calls import running
from .refusing import Refusing, no_operator, number_of, shown
from .variables import look


class Arithmetic:
    """The operators of a traced value, for type checkers and for `Tracer`.

    `Gate`, `State`, `Param` and `Constant` are annotations of a cell's arguments, and defaults
    declare them. While the function runs, each argument is a `Tracer`. Type checkers see results
    as `Any`, so that a body may rebind a declared name, as in `c = sigmoid(f) * c`.
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

    def __mod__(self, other: Arithmetic | float) -> Any:
        return combine("%", self, other)

    def __rmod__(self, other: float) -> Any:
        return combine("%", other, self)

    def __pow__(self, exponent: Arithmetic | float, modulus: object = None) -> Any:
        if modulus is not None:
            raise refuse.power_and_remainder(*map(shown, (self, exponent, modulus)))
        return _powered(self, exponent)

    def __rpow__(self, base: float, modulus: object = None) -> Any:
        if modulus is not None:
            raise refuse.power_and_remainder(*map(shown, (base, self, modulus)))
        return _powered(base, self)

    def __neg__(self) -> Any:
        return Tracer(nodes.negative(expression(self)), shared_owner(self))

    def __pos__(self) -> Any:
        return Tracer(expression(self), shared_owner(self))

    def __abs__(self) -> Any:
        return called("abs", self)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None or (isinstance(digits, int) and digits == 0):
            return called("round", self)
        raise refuse.digits(shown(self), digits if isinstance(digits, int) else shown(digits))

    def __floor__(self) -> Any:
        return called("floor", self)

    def __ceil__(self) -> Any:
        return called("ceil", self)

    def __trunc__(self) -> Any:
        return called("trunc", self)

    def __lt__(self, other: Arithmetic | float) -> Any:
        return compared("<", self, other)

    def __le__(self, other: Arithmetic | float) -> Any:
        return compared("<=", self, other)

    def __gt__(self, other: Arithmetic | float) -> Any:
        return compared(">", self, other)

    def __ge__(self, other: Arithmetic | float) -> Any:
        return compared(">=", self, other)


class Tracer(Refusing, Arithmetic):
    """A traced number: an expression of one unit of a cell."""

    def __init__(self, value: Node, owner: str) -> None:
        self.expression, self.owner = value, owner
        look()

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return compared("==", self, other)

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return compared("!=", self, other)

    __hash__ = object.__hash__

    def __call__(self, *operands: object, **named: object) -> Any:
        """Multiply a value by the weights of a gate; refuse the call of any other value."""
        called = called_gate(self, operands, named)
        if called is not None:
            return called
        taken = self.expression.name if self.expression.is_symbol else ""
        given = [*map(shown, operands), *(f"{name}={shown(x)}" for name, x in named.items())]
        raise refuse.called(shown(self), taken, given)

    __divmod__, __rdivmod__ = no_operator("divmod")
    __floordiv__, __rfloordiv__ = no_operator("//")
    __matmul__, __rmatmul__ = no_operator("@")
    __lshift__, __rlshift__ = no_operator("<<")
    __rshift__, __rrshift__ = no_operator(">>")
    __and__, __rand__ = no_operator("&")
    __or__, __ror__ = no_operator("|")
    __xor__, __rxor__ = no_operator("^")

    def __invert__(self) -> NoReturn:
        raise refuse.operator("~", "", shown(self))


class Condition(Refusing):
    """A traced condition for `where`: a comparison; & and | join two, ~ negates one."""

    def __init__(self, value: Node, owner: str) -> None:
        self.expression, self.owner = value, owner
        look()

    def __and__(self, other: Condition) -> Condition:
        return _joined("&", self, other)

    def __or__(self, other: Condition) -> Condition:
        return _joined("|", self, other)

    def __invert__(self) -> Condition:
        return Condition(nodes.negated(self.expression), self.owner)

    def _other_first(self, other: object) -> NoReturn:
        _condition(other)
        raise AssertionError  # pragma: no cover

    __rand__ = __ror__ = _other_first

    def _not_arithmetic(self, *_: object) -> NoReturn:
        raise refuse.condition(shown(self))

    def _no_factor(self, other: object) -> NoReturn:
        raise refuse.condition(shown(self), _factor(other))

    __add__ = __radd__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = _not_arithmetic
    __mul__ = __rmul__ = _no_factor
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _not_arithmetic
    __lt__ = __le__ = __gt__ = __ge__ = _not_arithmetic
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __matmul__ = __rmatmul__ = _not_arithmetic
    __divmod__ = __rdivmod__ = __round__ = __floor__ = __ceil__ = __trunc__ = _not_arithmetic
    __float__ = __int__ = __index__ = __complex__ = _not_arithmetic
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _not_arithmetic

    def __call__(self, *operands: object, **named: object) -> NoReturn:
        """Refuse a call."""
        raise refuse.called_condition(shown(self), [*map(shown, operands), *named])

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
        calls = running()
        if calls is not None:
            calls.read(value.expression)
        return value.expression
    if isinstance(value, Condition):
        raise refuse.condition(shown(value))
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise refuse.operand(shown(value), value)
    return nodes.number(number_of(value))


def called_gate(
    value: Tracer, operands: tuple[object, ...], named: dict[str, object]
) -> Tracer | None:
    """The value of a called gate of these arguments; None where the called value is no gate."""
    calls, node = running(), value.expression
    if calls is None or not node.is_symbol or node.name in signatures():
        return None
    gate, given = calls.gate(node), [*map(shown, operands), *map("{}=…".format, named)]
    if gate is None:
        if isinstance(calls.declared.get(node.name), State):
            raise refuse_stage.state_called(node.name, ", ".join(given))
        return None
    if len(operands) != 1 or named:
        raise refuse_stage.arguments(gate.name, given)
    argument = expression(operands[0])
    return Tracer(calls.call(gate, argument), shared_owner(value, operands[0]))


def combine(symbol: str, a: object, b: object) -> Tracer:
    """Two operands joined by an operator; both must belong to the same cell."""
    if isinstance(a, Condition) or isinstance(b, Condition):
        own, other = (a, b) if isinstance(a, Condition) else (b, a)
        raise refuse.condition(shown(own), _factor(other) if symbol == "*" else "")
    left, right = expression(a), expression(b)
    if symbol in ("/", "%") and right.is_number and right.value == 0:
        raise refuse.division_by_zero(f"{shown(a)} {symbol} 0")
    if symbol == "%":
        return Tracer(nodes.call("remainder", left, right), shared_owner(a, b))
    return Tracer(nodes.binary(symbol, left, right), shared_owner(a, b))


def called(function: str, operand: Arithmetic) -> Tracer:
    """A function of the table of one operand."""
    return Tracer(nodes.call(function, expression(operand)), shared_owner(operand))


def compared(relation: str, a: object, b: object) -> Condition:
    """A comparison of two operands."""
    return Condition(nodes.compare(relation, expression(a), expression(b)), shared_owner(a, b))


def _powered(base: object, exponent: object) -> Tracer:
    return Tracer(raised(expression(base), expression(exponent)), shared_owner(base, exponent))


def shared_owner(*operands: object) -> str:
    """The name of the cell that all traced operands belong to; empty if it is not known yet.

    Raises:
        CellError: they belong to two cells.
    """
    # In the step of a `repeat` that starts from numbers, the carried values have no cell yet.
    owners = {x.owner: x for x in operands if isinstance(x, Tracer | Condition) and x.owner}
    if len(owners) > 1:
        foreign = list(owners.values())[-1]
        raise CellError(
            f"the symbol {foreign} of another cell, {foreign.owner!r}",
            "symbols of this cell's own signature",
            "each symbol as an argument of this function",
        )
    return next(iter(owners), "")


def _factor(value: object) -> str:
    """The text of a condition's factor; empty if the factor is a condition too."""
    return "" if isinstance(value, Condition) else shown(value)


def _joined(op: str, left: Condition, right: object) -> Condition:
    return Condition(
        nodes.binary(op, left.expression, _condition(right)), shared_owner(left, right)
    )


def _condition(value: object) -> Node:
    if isinstance(value, Condition):
        return value.expression
    raise CellError(
        f"{shown(value)} joined to a condition",
        "two comparisons",
        "(a > 0) & (b > 0), in brackets",
    )
