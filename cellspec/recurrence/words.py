"""Words of a reason."""

from __future__ import annotations

from collections.abc import Sequence

from ..expression.node import Node

# Longer expressions are not quoted.
_LONGEST_QUOTE = 60


def quoted(node: Node) -> str:
    """Return an expression in quotes; of a long one, only its operation."""
    text = repr(node)
    if len(text) <= _LONGEST_QUOTE:
        return f"`{text}`"
    return f"`{node.name}(…)`" if node.op == "call" else f"an expression with `{node.op}`"


def joined(words: Sequence[str]) -> str:
    """Return words with commas between them, and `and` before the last."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
