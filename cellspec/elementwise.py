"""`ElementwiseFunction`: one row of the table of functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import refuse
from .arguments import Signature
from .errors import CellError
from .expression.node import Node, call, call_of_its_own, node_of
from .tracing.refusing import shown
from .tracing.tracer import Arithmetic, Condition, Tracer, expression, shared_owner

if TYPE_CHECKING:
    import sympy

Pullback = Callable[..., "tuple[sympy.Expr | None, ...]"]


@dataclass(frozen=True, eq=False)
class ElementwiseFunction:
    """One function of the language.

    Attributes:
        name: its name in cells and in the generated code.
        arguments: the names of its arguments, as `cpp` and `torch` use them.
        doc: a description in one line.
        cpp: its value as a C++ expression of type `real`, from functions of this table and the
            mathematics header; empty if that header has a function of this name.
        torch: its value as a Python expression, with torch as `torch`, torch.nn.functional as `F`.
        pullback: `pullback(d, y, *arguments)` returns the cotangent of each argument, given the
            output's cotangent `d`, the output's value `y` and the arguments; None for an argument
            that no gradient reaches.
        latex: its name in mathematics.
        domain: the open interval of its first argument.
        divisor: the name of an argument that it divides by, if any.
        defaults: default values of the last arguments.
        linear: whether its pullback is linear in `d`. If it is not, equal applications must not
            become one: the pullback of a sum is not the sum of the pullbacks.
        identity: whether its value is its first argument, and only its gradient differs.
        free_name: whether a cell's own values may have its name, which cells used before the
            function existed. Generated code then spells it with a namespace.
        written: the node of a call in a cell, from those of its arguments, if it may be another
            operation: `pow(x, 2)` is `x**2`.
    """

    name: str
    arguments: tuple[str, ...]
    doc: str
    cpp: str
    torch: str
    pullback: Pullback
    latex: str = ""
    domain: tuple[float, float] = (-math.inf, math.inf)
    divisor: str = ""
    defaults: tuple[float, ...] = ()
    linear: bool = True
    identity: bool = False
    free_name: bool = False
    written: Callable[..., Node] | None = None

    @property
    def cpp_name(self) -> str:
        """Its name in generated code, which no name of a cell hides."""
        return f"fn::{self.name}" if self.free_name else self.name

    @property
    def symbol(self) -> Any:
        """The sympy function of this name."""
        import sympy

        # Explicit, because sympy would infer them from the arguments, and a condition has neither.
        return sympy.Function(self.name, nargs=len(self.arguments), real=True, commutative=True)

    def of(self, *arguments: Any) -> Any:
        """The function applied to nodes, or to the sympy expressions of a pullback."""
        if any(isinstance(a, Node) for a in arguments):
            return self.node(*map(node_of, arguments))
        return self.symbol(*arguments)

    def node(self, *arguments: Node) -> Node:
        """The function applied to nodes; equal calls are one node if the gradient is linear."""
        return (call if self.linear else call_of_its_own)(self.name, *arguments)

    def __call__(
        self, *operands: Arithmetic | Condition | float, **named: Arithmetic | Condition | float
    ) -> Any:
        """Apply the function to gates, states, params, constants and numbers of a cell.

        Args:
            operands: the first arguments, in their order.
            named: others, by their names: `leaky_relu(g, slope=0.2)`.

        Raises:
            CellError: a missing argument, one too many or given twice, no argument of that name, no
                traced argument, a foreign one, or 0 as a divisor.
        """
        filled = self._takes.filled(operands, named)
        if not any(isinstance(x, Tracer | Condition) for x in filled):
            given = [*map(shown, operands), *(f"{n}={shown(x)}" for n, x in named.items())]
            raise refuse.numbers_alone(self.name, given)
        nodes = map(self._argument, self.arguments, filled)
        return Tracer((self.written or self.node)(*nodes), shared_owner(*filled))

    @property
    def signature(self) -> str:
        """The function's name and arguments, with their defaults."""
        return self._takes.text

    @property
    def _takes(self) -> Signature:
        return Signature(self.name, self.arguments, self.defaults)

    def _argument(self, name: str, operand: object) -> Node:
        if name == "condition":
            if isinstance(operand, Condition):
                return operand.expression
            raise CellError(
                f"{shown(operand)} as the condition of {self.name}",
                "a comparison",
                "where(x > 0, a, b)",
            )
        found = expression(operand)
        if name == self.divisor and found.is_number and found.value == 0:
            raise refuse.division_by_zero(f"0 as the divisor of {self.name}")
        return found

    def __repr__(self) -> str:
        return f"<rnnc function {self.signature}: {self.doc}>"
