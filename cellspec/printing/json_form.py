"""Equations of a cell in JSON: one text per state, and shared values with names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..errors import CellError, kind_of
from ..expression.graph import canonical_nodes
from ..expression.loops import MOST_PASSES, repeated
from ..expression.node import Node, fresh_tag, make, node_of
from ..expression.sharing import Loop, Naming, naming
from ..expression.text import from_text, to_exact_text
from .json_order import check_order


def updates_as_text(
    updates: Sequence[Node], variables: Mapping[Node, str] | None = None
) -> dict[str, Any]:
    """The field `updates`, and the field `shared` if values have names.

    `shared` is a list of pairs, a name and a text, and each text may use the names before it. A
    loop is an object: its number of passes, the names of its carried values, what they are before
    the first pass and after each, and a list of shared values of the body.

    Args:
        updates: the new values.
        variables: the names of values that have one.
    """
    written = naming(updates, exact=True, variables=variables)
    texts: dict[str, Any] = {"updates": _texts(written)}
    if written.statements:
        texts["shared"] = _shared(written)
    return texts


def _texts(written: Naming) -> list[str]:
    """Return the text of each root."""
    named = written.named()
    return [named.get(root) or to_exact_text(root, named) for root in written.roots]


def _shared(written: Naming) -> list[Any]:
    """Return the statements."""
    named, found = written.named(), list[Any]()
    for statement in written.statements:
        if isinstance(statement, Loop):
            loop: dict[str, Any] = {
                "repeat": statement.passes,
                "carried": list(statement.names),
                "from": [named.get(s) or to_exact_text(s, named) for s in statement.starts],
                "next": _texts(statement.body),
            }
            if statement.body.statements:
                loop["shared"] = _shared(statement.body)
            found.append(loop)
        else:
            found.append([statement.name, to_exact_text(statement.node, named)])
    return found


def updates_from_text(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a cell with shared values in place of their names, which become variables.

    Raises:
        CellError: the shared values are not a list of pairs of a name and a text, and of loops,
            or one of them needs a later one or itself.
    """
    rest = {name: value for name, value in fields.items() if name != "shared"}
    check_order(fields.get("shared", ()), _declared(fields))
    known = _known(fields.get("shared", ()), {})
    updates = rest.get("updates")
    if isinstance(updates, list | tuple):
        rest["updates"] = tuple(from_text(u, known) if isinstance(u, str) else u for u in updates)
        if known and all(isinstance(u, Node) for u in rest["updates"]):
            new = canonical_nodes(rest["updates"])
            pairs = ((new[node], name) for name, node in known.items() if node in new)
            rest["variables"] = tuple((node, name) for node, name in pairs if node.args)
    return rest


def _declared(fields: Mapping[str, Any]) -> set[str]:
    """Return the names of what a cell declares."""
    found = set[str]()
    for kind in ("gates", "states", "inputs", "params", "constants"):
        declared = fields.get(kind)
        for each in declared if isinstance(declared, list | tuple) else ():
            name = each.get("name") if isinstance(each, dict) else getattr(each, "name", None)
            found |= {name} if isinstance(name, str) else set()
    return found


def _known(shared: Any, outer: Mapping[str, Node]) -> dict[str, Node]:
    """Return the nodes of shared values by name, with those that were known before."""
    known = dict(outer)
    if not isinstance(shared, list | tuple):
        raise CellError(f"{shared!r} as the shared values", "a list of pairs", '[["t0", "g*h"]]')
    for entry in shared:
        match entry:
            case [str() as name, str() as text]:
                known[name] = from_text(text, known)
            case {
                "repeat": int() as passes,
                "carried": [*names],
                "from": [*starts],
                "next": [*new],
            }:
                body = entry.get("shared", ())
                known |= _loop(passes, names, starts, new, body, known)
            case _:
                wanted = "a name and a text, or a loop"
                raise CellError(f"{entry!r} as a shared value", wanted, '["t0", "g*h"]')
    return known


def _loop(
    passes: int,
    names: list[Any],
    starts: list[Any],
    new: list[Any],
    body: Any,
    known: dict[str, Node],
) -> dict[str, Node]:
    """Return the results of a loop by name."""
    texts = (*names, *starts, *new)
    same = len(names) == len(starts) == len(new) > 0
    if not same or not 1 < passes <= MOST_PASSES or not all(isinstance(t, str) for t in texts):
        raise CellError(
            f"a loop of {passes} passes with {len(names)} carried, {len(starts)} first and"
            f" {len(new)} next values",
            f"2 to {MOST_PASSES:,} passes, and a text for each carried value in `from` and `next`",
            '{"repeat": 50, "carried": ["t0"], "from": ["h"], "next": ["t0 + g"]}',
        )
    first, since = [from_text(text, known) for text in starts], fresh_tag()
    symbols = [make("symbol", name, (), fresh_tag()) for name in names]
    inside = _known(body, {**known, **dict(zip(names, symbols, strict=True))})
    roots = [from_text(text, inside) for text in new]
    return dict(zip(names, repeated(passes, first, symbols, roots, since), strict=True))


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
