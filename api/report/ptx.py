"""PTX with the lines of the source that each instruction came from, and without paths."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LOC = re.compile(
    r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+\S+\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_SECTION = re.compile(r"^\s*\.section\b")

Place = tuple[int, int, int]  # file, line, column


class PtxLine(NamedTuple):
    """A line of PTX.

    Attributes:
        text: the line.
        line: the line of the generated source that it came from, through the chain of inlined
            calls, counted from 1; 0 for a line that came from a header alone.
        header: the file's name of the innermost call.
    """

    text: str
    line: int
    header: str


def ptx_lines(text: str, name: str) -> tuple[PtxLine, ...]:
    """The instructions of a PTX text without its `.loc`, `.file` and debug sections.

    Args:
        text: PTX that was compiled with line information.
        name: the generated source's file.
    """
    files = {int(number): path for number, path in _FILE.findall(text)}
    own = next((n for n, path in files.items() if PurePosixPath(path).name == name), 0)
    called_from: dict[Place, Place] = {}
    now: Place = (0, 0, 0)
    found: list[PtxLine] = []
    in_section = False
    for line in text.splitlines():
        place = _LOC.match(line)
        if place:
            now = int(place[1]), int(place[2]), int(place[3])
            if place[4]:
                called_from[now] = int(place[4]), int(place[5]), int(place[6])
            else:
                called_from.pop(now, None)
            continue
        if _SECTION.match(line):
            in_section = True
        if in_section:
            in_section = not line.startswith("\t}") and not line.startswith("}")
            continue
        if _FILE.match(line) or not line.strip():
            continue
        header = PurePosixPath(files.get(now[0], "")).name
        found.append(PtxLine(line.expandtabs(4), _line_in(own, now, called_from), header))
        if line.startswith((".visible", ".entry", "{", "}", "//")):
            now = (0, 0, 0)
    return tuple(found)


def _line_in(own: int, place: Place, called_from: dict[Place, Place]) -> int:
    """The line of a file nearest to a place in its chain of inlined calls."""
    seen: set[Place] = set()
    at: Place | None = place
    while at is not None and at not in seen:
        if at[0] == own:
            return at[1]
        seen.add(at)
        at = called_from.get(at)
    return 0
