"""Called gates and reductions as nodes.

A `"gate"` node is a gate whose matrix multiplies a value of the step: its value is the gate's name,
its argument is what is multiplied. A `"units"` node is a reduction: its value is the function's
name, its arguments are the values; those of a norm begin with the number eps. Of values that are
normed together, a `"member"` node is one; its value is the place.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expression.node import Node, make, number
from .table import REDUCTIONS

#: The operations of a stage of their own.
STAGES = ("gate", "units")


def gate_call(name: str, argument: Node) -> Node:
    """The gate of a name whose weights multiply a value.

    Args:
        name: of the gate.
        argument: the value.
    """
    return make("gate", name, (argument,))


def reduction(name: str, values: Sequence[Node], eps: float | None = None) -> tuple[Node, ...]:
    """A reduction's value for each of the values that it takes together.

    Args:
        name: of the function, in `REDUCTIONS`.
        values: one value, or for a norm several.
        eps: of a norm; None for its default.
    """
    row = REDUCTIONS[name]
    first = (number(row.eps if eps is None else eps),) if row.eps is not None else ()
    node = make("units", name, (*first, *values))
    if len(values) == 1:
        return (node,)
    return tuple(make("member", place, (node,)) for place in range(len(values)))


def reduced(node: Node) -> tuple[Node, ...]:
    """The values that a `"units"` node takes, without eps."""
    return node.args[1:] if REDUCTIONS[node.name].is_norm else node.args


def is_together(node: Node) -> bool:
    """Return True if a node stands for several values that are normed together: it is no number."""
    return node.op == "units" and len(reduced(node)) > 1


def eps_of(node: Node) -> float:
    """The number eps of a norm."""
    eps = node.args[0].value
    assert isinstance(eps, int | float)
    return float(eps)
