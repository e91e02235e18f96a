"""The order of shared values in JSON: each after those that it uses."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from ..errors import CellError

#: A name of a value, and not of a function that is called or of an argument.
_NAME = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*\(|=[^=])")


def check_order(shared: Any, declared: Container[str]) -> None:
    """Refuse a shared value that uses itself or a later one.

    Args:
        shared: the field of the JSON, whose form another check refuses.
        declared: names that mean something else until a shared value takes them.

    Raises:
        CellError: lists the values of a cycle, or names the two that are in the wrong order.
    """
    uses: dict[str, list[str]] = {}
    for entry in _entries(shared):
        if isinstance(entry, dict):
            check_order(entry.get("shared"), declared)
        for name in _names(entry):
            # A name that is given twice means the first value until the second.
            uses.setdefault(name, [used for used in _used(entry) if used not in declared])
    places = {name: place for place, name in enumerate(uses)}
    for name, used in uses.items():
        for other in used:
            if places.get(other, -1) < places[name]:
                continue
            if cycle := _path(other, name, uses):
                raise CellError(
                    f"shared values that use each other: {' -> '.join((name, *cycle))}",
                    "values that are known when they are used",
                    "the text that cell.to_json() gives; a value of the step before is a state",
                )
            raise CellError(
                f"the shared value `{name}`, which uses the later `{other}`",
                "each shared value after those that it uses",
                f"the entry of `{other}` before that of `{name}`",
            )


def _entries(shared: Any) -> list[Any]:
    """Return the entries of a field that may be entries."""
    given = shared if isinstance(shared, list | tuple) else ()
    return [entry for entry in given if isinstance(entry, list | tuple | dict)]


def _names(entry: Any) -> list[str]:
    """Return the names that an entry gives values to."""
    return _texts(entry.get("carried") if isinstance(entry, dict) else entry[:1])


def _used(entry: Any) -> list[str]:
    """Return the names that an entry uses, without those that it gives values to in a loop."""
    if not isinstance(entry, dict):
        return _found(entry[1:])
    inner = _entries(entry.get("shared"))
    own = {*_names(entry), *(name for each in inner for name in _names(each))}
    inside = [*_found(entry.get("next")), *(name for each in inner for name in _used(each))]
    return [*_found(entry.get("from")), *(name for name in inside if name not in own)]


def _found(texts: Any) -> list[str]:
    """Return the names in texts."""
    return [name for text in _texts(texts) for name in _NAME.findall(text)]


def _texts(values: Any) -> list[str]:
    """Return the texts among values that may be texts."""
    given = values if isinstance(values, list | tuple) else ()
    return [text for text in given if isinstance(text, str)]


def _path(first: str, last: str, uses: Mapping[str, list[str]]) -> list[str]:
    """Return the shortest way from a value to one that it needs; empty if there is none."""
    before, waiting = {first: ""}, [first]
    for name in waiting:
        if name == last:
            path = [name]
            while before[path[0]]:
                path.insert(0, before[path[0]])
            return path
        for used in uses.get(name, ()):
            if used not in before:
                before[used] = name
                waiting.append(used)
    return []
