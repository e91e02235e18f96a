"""Equations of a cell in JSON: one text per state, and shared values with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CellError
from ..expression.node import Node, node_of
from ..expression.sharing import exactly_named_values
from ..expression.text import from_text, to_exact_text


def updates_as_text(updates: Sequence[Node]) -> dict[str, Any]:
    """The field `updates`, and the field `shared` if values need names.

    `shared` is a list of pairs, a name and a text, and each text may use the names before it.
    """
    named = exactly_named_values(updates)
    texts: dict[str, Any] = {
        "updates": [named.get(u) or to_exact_text(u, named) for u in updates],
    }
    if named:
        texts["shared"] = [[name, to_exact_text(node, named)] for node, name in named.items()]
    return texts


def updates_from_text(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a cell with shared values in place of their names.

    Raises:
        CellError: a shared value is not a pair of a name and a text.
    """
    rest = {name: value for name, value in fields.items() if name != "shared"}
    known: dict[str, Node] = {}
    for pair in fields.get("shared", ()):
        match pair:
            case [str() as name, str() as text]:
                known[name] = from_text(text, known)
            case _:
                raise CellError(f"{pair!r} as a shared value", "a name and a text", '["t0", "g*h"]')
    updates = rest.get("updates")
    if isinstance(updates, list | tuple):
        rest["updates"] = tuple(from_text(u, known) if isinstance(u, str) else u for u in updates)
    return rest


def node_from(value: Any) -> Any:
    """The node of an update, which may be a text, a number, a node or a sympy expression."""
    if isinstance(value, str):
        return from_text(value)
    if isinstance(value, Node) or value is None:
        return value
    if hasattr(value, "free_symbols"):
        from ..expression.symbolic import from_sympy

        return from_sympy(value)
    return node_of(value)
