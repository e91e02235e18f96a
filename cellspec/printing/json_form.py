"""Equations of a cell in JSON: one text per state, and shared values with names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..errors import CellError, kind_of
from ..expression.graph import canonical_nodes
from ..expression.node import Node, node_of
from ..expression.sharing import exactly_named_values
from ..expression.text import from_text, to_exact_text


def updates_as_text(
    updates: Sequence[Node], variables: Mapping[Node, str] | None = None
) -> dict[str, Any]:
    """The field `updates`, and the field `shared` if values have names.

    `shared` is a list of pairs, a name and a text, and each text may use the names before it.

    Args:
        updates: the new values.
        variables: the names of values that have one.
    """
    named = exactly_named_values(updates, variables)
    texts: dict[str, Any] = {
        "updates": [named.get(u) or to_exact_text(u, named) for u in updates],
    }
    if named:
        texts["shared"] = [[name, to_exact_text(node, named)] for node, name in named.items()]
    return texts


def updates_from_text(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a cell with shared values in place of their names, which become variables.

    Raises:
        CellError: the shared values are not a list of pairs of a name and a text.
    """
    rest = {name: value for name, value in fields.items() if name != "shared"}
    known: dict[str, Node] = {}
    shared = fields.get("shared", ())
    if not isinstance(shared, list | tuple):
        raise CellError(f"{shared!r} as the shared values", "a list of pairs", '[["t0", "g*h"]]')
    for pair in shared:
        match pair:
            case [str() as name, str() as text]:
                known[name] = from_text(text, known)
            case _:
                raise CellError(f"{pair!r} as a shared value", "a name and a text", '["t0", "g*h"]')
    updates = rest.get("updates")
    if isinstance(updates, list | tuple):
        rest["updates"] = tuple(from_text(u, known) if isinstance(u, str) else u for u in updates)
        if known and all(isinstance(u, Node) for u in rest["updates"]):
            new = canonical_nodes(rest["updates"])
            pairs = ((new[node], name) for name, node in known.items() if node in new)
            rest["variables"] = tuple((node, name) for node, name in pairs if node.args)
    return rest


def node_from(value: Any) -> Node:
    """Make the node of an update from a text, a number, a node or a sympy expression.

    Raises:
        CellError: it is none of these.
    """
    if isinstance(value, str):
        return from_text(value)
    if isinstance(value, Node):
        return value
    if hasattr(value, "free_symbols"):
        from ..expression.symbolic import from_sympy

        return from_sympy(value)
    try:
        return node_of(value)
    except TypeError as error:
        raise CellError(
            f"{value!r} as the new value of a state", "an expression", 'a text such as "tanh(g)"'
        ) from error


def refused(error: ValidationError) -> CellError:
    """Turn the first of pydantic's complaints about a JSON text into a message of four parts."""
    problems = error.errors(include_url=False)
    kind, given, said = (problems[0][key] for key in ("type", "input", "msg"))
    path = _path(problems[0]["loc"])
    wanted = "the JSON of a cell"
    if kind == "json_invalid":
        found = f"a text that is not JSON: {said.removeprefix('Invalid JSON: ')}"
    elif kind == "json_type":
        found = kind_of(given)
    elif kind == "missing":
        found = f"no field `{path}`"
    elif kind == "extra_forbidden":
        found = f"a field `{path}`, which a cell lacks"
    else:
        written = json.dumps(given)
        shown = written if len(written) <= _LONGEST_VALUE else f"{written[:_LONGEST_VALUE]}…"
        found = f"{shown} as `{path}`" if path else shown
        either = 'true, false or "diagonal"'
        wanted = either if path.endswith(_EITHER) else said.removeprefix("Input should be ")
    others = len({_path(problem["loc"]) for problem in problems}) - 1
    found += f", and {others} more mistakes" if others > 1 else ", and one more" * others
    return CellError(found, wanted, "the text that cell.to_json() gives")


#: The most letters of a wrong value in a message.
_LONGEST_VALUE = 80
#: The field of two types. Pydantic gives each a place and a complaint of its own.
_EITHER = ".recurrent"


def _path(place: Sequence[int | str]) -> str:
    """Write the place of a value as Python does: `gates[0].bias`."""
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    before, either, _ = parts.partition(_EITHER)
    return f"{before}{either}".removeprefix(".")
