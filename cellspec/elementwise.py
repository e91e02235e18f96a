"""`ElementwiseFunction`: one row of the table of functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
        defaults: default values of the last arguments.
        linear: whether its pullback is linear in `d`. If it is not, equal applications must not
            become one: the pullback of a sum is not the sum of the pullbacks.
        identity: whether its value is its first argument, and only its gradient differs.
    """

    name: str
    arguments: tuple[str, ...]
    doc: str
    cpp: str
    torch: str
    pullback: Pullback
    latex: str = ""
    domain: tuple[float, float] = (-math.inf, math.inf)
    defaults: tuple[float, ...] = ()
    linear: bool = True
    identity: bool = False

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

    def __call__(self, *operands: Arithmetic | Condition | float) -> Any:
        """Apply the function to gates, states, params, constants and numbers of a cell.

        Raises:
            CellError: a wrong number of arguments, no traced argument, or a foreign one.
        """
        missing = len(self.arguments) - len(operands)
        if not 0 <= missing <= len(self.defaults):
            raise CellError(
                f"{self.name} with {len(operands)} argument(s)",
                f"{len(self.arguments)}: {', '.join(self.arguments)}",
                self.signature,
            )
        filled = (*operands, *self.defaults[len(self.defaults) - missing :])
        if not any(isinstance(x, Tracer | Condition) for x in filled):
            raise CellError(
                f"{self.name}({', '.join(map(shown, operands))})",
                "a gate, state, param or constant of the cell among the arguments",
                "the value itself, as a number",
            )
        nodes = map(self._argument, self.arguments, filled)
        return Tracer(self.node(*nodes), shared_owner(*filled))

    @property
    def signature(self) -> str:
        """The function's name and arguments, with their defaults."""
        first = len(self.arguments) - len(self.defaults)
        named = [f"{a}={v}" for a, v in zip(self.arguments[first:], self.defaults, strict=True)]
        return f"{self.name}({', '.join([*self.arguments[:first], *named])})"

    def _argument(self, name: str, operand: object) -> Node:
        if name == "condition":
            if isinstance(operand, Condition):
                return operand.expression
            raise CellError(
                f"{shown(operand)} as the condition of {self.name}",
                "a comparison",
                "where(x > 0, a, b)",
            )
        return expression(operand)

    def __repr__(self) -> str:
        return f"<rnnc function {self.signature}: {self.doc}>"
