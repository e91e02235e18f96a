"""Products in which a name of several letters would run into what stands beside it."""

from __future__ import annotations

from collections.abc import Container

from ..expression.node import Node


def needs_sign(left: Node, right: Node, greek: Container[str]) -> bool:
    """Return whether two factors need a sign between them, since one of them is a word there.

    A function on the right needs none after a bracket or a letter: it is set apart.

    Args:
        left: the first factor.
        right: the second factor.
        greek: words that are shown as a letter.
    """
    # A product on the right, and so that of a product on the left, is in brackets.
    last = left.args[1] if left.op == "*" else left
    return right.is_number or _is_word(last, greek) or _is_word(right, greek)


def _is_word(node: Node, greek: Container[str]) -> bool:
    if node.op != "symbol":
        return False
    base = node.name.removesuffix("_next").partition("_")[0]
    return len(base) > 1 and base not in greek
