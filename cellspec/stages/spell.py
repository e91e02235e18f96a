"""Text of called gates and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .table import REDUCTIONS

if TYPE_CHECKING:
    from ..expression.node import Node


def stage_text(node: Node, args: list[str]) -> str:
    """The text of a `"gate"` or `"units"` node, as an author writes it.

    Args:
        node: the node.
        args: the texts of its arguments.
    """
    if node.op == "gate":
        return f"{node.name}({args[0]})"
    row = REDUCTIONS[node.name]
    if row.eps is None:
        return f"{node.name}({args[0]})"
    values = args[1] if len(args) == 2 else f"({', '.join(args[1:])})"
    own = "" if node.args[0].value == row.eps else f", eps={args[0]}"
    return f"{node.name}({values}{own})"
