"""What a cell's function computes with: symbols that refuse whatever a kernel cannot do."""

from __future__ import annotations

import math
import numbers
import operator
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import sympy

# sympy's first sum imports it, in tens of ms: with the imports, not with the first call.
import sympy.tensor.tensor
from sympy.core.parameters import distribute

from .errors import CellError, kind_of


def factored() -> AbstractContextManager[None]:
    """Inside, a number times a sum stays a product: `0.1 * (a + b)` is two operations, not three.

    sympy multiplies it out unless told; whatever builds or rebuilds expressions of a cell is told.
    """
    manager: AbstractContextManager[None] = distribute(False)
    return manager


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

    def __pow__(self, exponent: int) -> Any:
        if isinstance(exponent, bool) or not isinstance(exponent, int):
            raise CellError(
                f"{_text(self)} ** {_text(exponent)}",
                "a power with a whole number as its exponent",
                "sqrt(x), rsqrt(x), or exp(p * log(x)) for other powers",
            )
        return Tracer(expression(self) ** exponent, shared_owner(self))

    def __neg__(self) -> Any:
        return Tracer(-expression(self), shared_owner(self))

    def __pos__(self) -> Any:
        return Tracer(expression(self), shared_owner(self))

    def __lt__(self, other: Arithmetic | float) -> Any:
        return compare(sympy.Lt, self, other)

    def __le__(self, other: Arithmetic | float) -> Any:
        return compare(sympy.Le, self, other)

    def __gt__(self, other: Arithmetic | float) -> Any:
        return compare(sympy.Gt, self, other)

    def __ge__(self, other: Arithmetic | float) -> Any:
        return compare(sympy.Ge, self, other)


class _Refusing:
    """Turns each use that has no meaning for a symbol into an error that names the remedy."""

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise CellError(
            f"a Python decision (if, and, or, not, max, min) on {_text(self)}",
            "one expression for all units: its value is not known while the cell is traced",
            "where(condition, a, b), maximum(a, b) or minimum(a, b); & and | join conditions",
        )

    def _not_a_number(self, *_: object) -> NoReturn:
        raise CellError(
            f"{_text(self)} turned into a Python number, as the functions of math do",
            "a function of rnnc's table, which has a derivative and a CUDA spelling",
            "from rnnc import tanh, exp, … and call that one",
        )

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = _not_a_number

    def _not_a_sequence(self, *_: object) -> NoReturn:
        raise CellError(
            f"{_text(self)} used as a sequence (a loop, an index, len)",
            "an expression for one unit: a symbol has no length",
            "the arithmetic of one unit; heads, batch and time are the compiler's",
        )

    __iter__ = __len__ = __getitem__ = __contains__ = _not_a_sequence

    def _no_such_operator(self, *_: object) -> NoReturn:
        raise CellError(
            f"an operator on {_text(self)} that is not in the language",
            "+ - * / ** and comparisons",
            "a recurrent product as a gate, for example n: Gate = gate(input=False)",
        )

    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = _no_such_operator
    __matmul__ = __rmatmul__ = __lshift__ = __rshift__ = __rpow__ = _no_such_operator

    @classmethod
    def __torch_function__(cls, function: Any, *_: object, **__: object) -> NoReturn:
        raise foreign_call("torch", getattr(function, "__name__", str(function)))

    def __array_ufunc__(self, ufunc: Any, *_: object, **__: object) -> NoReturn:
        raise foreign_call("numpy", ufunc.__name__)

    def _sympy_(self) -> NoReturn:
        raise foreign_call("sympy", "sympify")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise CellError(
            f"the attribute .{name} of {_text(self)}",
            "arithmetic and functions of rnnc's table",
            f"from rnnc import {name}, if the table has it, and {name}(x)",
        )


class Tracer(_Refusing, Arithmetic):
    """One number of one unit of a cell while its function runs: a sympy expression."""

    def __init__(self, value: sympy.Expr, owner: str) -> None:
        self.expression = value
        self.owner = owner

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return compare(sympy.Eq, self, other)

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return compare(sympy.Ne, self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return str(self.expression)


class Condition(_Refusing):
    """A comparison of traced values, for `where`; & and | join two, ~ negates one."""

    def __init__(self, value: sympy.Basic, owner: str) -> None:
        self.expression = value
        self.owner = owner

    def __and__(self, other: Condition) -> Condition:
        return Condition(sympy.And(self.expression, _condition(other)), self.owner)

    def __or__(self, other: Condition) -> Condition:
        return Condition(sympy.Or(self.expression, _condition(other)), self.owner)

    def __invert__(self) -> Condition:
        return Condition(sympy.Not(self.expression), self.owner)

    def __repr__(self) -> str:
        return str(self.expression)


def foreign_call(library: str, name: str) -> CellError:
    """The error for a call of another library's function on a symbol."""
    return CellError(
        f"a call of {library}.{name}",
        "a function of rnnc's table, which has a derivative and a CUDA spelling",
        f"from rnnc import {name}, if the table has it; else build it from those that are there",
    )


def expression(value: object) -> sympy.Expr:
    """The sympy expression of an operand: a traced value or a finite Python number."""
    if isinstance(value, Tracer):
        return value.expression
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise CellError(
            f"{_text(value)} inside the equations",
            "gates, states, params, constants and plain numbers",
            "a learned value as w: Param, a number as alpha: Constant = constant(0.1)",
        )
    return number(float(value) if not isinstance(value, int) else value)


def number(value: float) -> sympy.Expr:
    """The sympy number of a finite Python number; whole floats become integers."""
    if not math.isfinite(value):
        raise CellError(f"the number {value}", "a finite number", "a finite number")
    return sympy.Integer(int(value)) if value == int(value) else sympy.Float(value)


def combine(symbol: str, a: object, b: object) -> Tracer:
    """Join two operands by an operator, checking that both belong to the same cell."""
    left, right = expression(a), expression(b)
    if symbol == "/" and right.is_zero:
        raise CellError(f"{_text(a)} / 0", "a divisor that is not zero", "another divisor")
    return Tracer(_OPERATIONS[symbol](left, right), shared_owner(a, b))


_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def compare(relation: Any, a: object, b: object) -> Condition:
    """Compare two operands."""
    return Condition(relation(expression(a), expression(b)), shared_owner(a, b))


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


def _condition(value: object) -> sympy.Basic:
    if isinstance(value, Condition):
        return value.expression
    raise CellError(
        f"{_text(value)} joined to a condition", "two comparisons", "(a > 0) & (b > 0), in brackets"
    )


def _text(value: object) -> str:
    shown = repr(value)
    if isinstance(value, Tracer | Condition):
        return f"`{shown}`"
    return shown if len(shown) <= 80 and "\n" not in shown else kind_of(value)
