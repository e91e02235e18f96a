"""Facts that the table of functions has of a node of an expression."""

from __future__ import annotations

from ..expression.node import Node
from . import TABLE


def is_identity(node: Node) -> bool:
    """Return True if a call's value is its first argument, as that of `stop_gradient` is.

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
