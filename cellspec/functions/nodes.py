"""What the table of functions says of a node of an expression."""

from __future__ import annotations

from ..expression.node import Node
from . import TABLE


def is_identity(node: Node) -> bool:
    """Whether a node calls a function whose value is its first argument, as `stop_gradient` does.

    Args:
        node: any node.
    """
    return node.op == "call" and TABLE[node.name].identity


def value_args(node: Node) -> tuple[Node, ...]:
    """The arguments that a node's value depends on: of `with_gradient`, the first alone.

    Args:
        node: any node.
    """
    return node.args[:1] if is_identity(node) else node.args
