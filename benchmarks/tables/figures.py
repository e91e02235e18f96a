"""Files of figures, and the tables that pages make of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rnnc.bench.drawing import source_of


def newest(
    results: Path, pattern: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any] | None:
    """The latest matching file; of several from one day, the one with the most results."""

    def key(content: dict[str, Any]) -> tuple[str, int]:
        measured = sum(bool(case["times"]) for case in content.get("cases", ()) if "times" in case)
        return content["date"], len(content.get("rows", ())) + measured

    contents = []
    for path in sorted(results.glob(pattern)):
        content = json.loads(path.read_text("utf-8"))
        if wanted(content):
            contents.append(content | {"path": path})
    return max(contents, key=key, default=None)


def of_newest(
    pattern: str,
    command: str,
    wanted: Callable[[dict[str, Any]], bool] = lambda _: True,
    add: Callable[[dict[str, Any], Path], dict[str, Any]] = lambda found, _: found,
) -> Callable[[Callable[[dict[str, Any]], str]], Callable[[Path], str]]:
    """Give a text the newest file of a folder; without one, it says which command measures.

    Args:
        pattern: of the file's name.
        command: that measures.
        wanted: whether a file counts.
        add: gives the file with what others of the folder add.
    """

    def decorate(write: Callable[[dict[str, Any]], str]) -> Callable[[Path], str]:
        def read(results: Path) -> str:
            found = newest(results, pattern, wanted)
            return missing(command) if found is None else write(add(found, results))

        return read

    return decorate


def missing(command: str) -> str:
    """What a page says where there is no file."""
    return f"Not measured yet: `{command}`."


def source(content: dict[str, Any]) -> str:
    """The machine, the date and the command of a file."""
    return f"{source_of(content)}: `{content['command']}`."


def table(lines: list[str]) -> str:
    """A table in Markdown."""
    head, *rest = (f"| {line.replace('|', ' | ')} |" for line in lines)
    rule = re.sub(r"[^|]+", "---", head)
    return "\n".join([head, rule, *rest])
