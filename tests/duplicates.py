"""Pairs of places in the package with equal code: six lines or more.

    python tests/duplicates.py [FOLDER ...]

Blank lines, comments and imports do not count, neither do declarations of a cell (its gates have
the names of the paper), and neither does indentation. Windows of six equal
lines that follow each other are one pair of places. Code is Python with its docstrings, templates,
and the C++ and CUDA of their libraries, without the example that the compiler writes.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("api", "cellspec", "codegen", "constrint", "runtime", "templates")
WINDOW = 6
# A line of a cell's signature.
DECLARATION = re.compile(r"\w+: (Gate|State|Param|Input|Constant)( = .*)?,")
SUFFIXES = {".py", ".jinja", ".h", ".cu", ".cuh"}


class Line(NamedTuple):
    """A line of code, without what surrounds it."""

    file: str
    number: int
    text: str


class Pair(NamedTuple):
    """Two places with equal code.

    Attributes:
        first: its first line at the one place.
        second: the same at the other.
        lines: how many are equal.
    """

    first: Line
    second: Line
    lines: int

    def __str__(self) -> str:
        places = (f"{line.file}:{line.number}" for line in (self.first, self.second))
        return f"{self.lines} lines at {' and '.join(places)}: {self.first.text}"


def code_of(file: Path, root: Path = ROOT) -> list[Line]:
    """The lines of a file that count."""
    text = file.read_text("utf-8")
    left_out = _imports(text) if file.suffix == ".py" else set()
    comment = "#" if file.suffix == ".py" else "//"
    return [
        Line(str(file.relative_to(root)), number, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith(comment) and number not in left_out
        if not DECLARATION.fullmatch(line.strip())
    ]


def _imports(text: str) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def pairs_in(files: Iterable[list[Line]]) -> list[Pair]:
    """The pairs of places with equal code; places of one file do not overlap."""
    lines = [line for file in files for line in [*file, Line("", 0, "")]]
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for start in range(len(lines) - WINDOW + 1):
        texts = tuple(line.text for line in lines[start : start + WINDOW])
        if all(texts):  # a window ends with its file
            places[texts].append(start)
    equal = {pair for starts in places.values() for pair in combinations(starts, 2)}
    return [Pair(lines[a], lines[b], length) for a, b, length in _merged(equal) if b - a >= length]


def _merged(equal: set[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """The first places of windows that follow each other, and how many lines these have."""
    for a, b in sorted(equal):
        if (a - 1, b - 1) not in equal:
            more = 0
            while (a + more + 1, b + more + 1) in equal:
                more += 1
            yield a, b, WINDOW + more


def files_in(folders: Iterable[str] = ROOMS, root: Path = ROOT) -> list[list[Line]]:
    """The code of all files of some folders."""
    found = sorted(path for folder in folders for path in (root / folder).rglob("*"))
    return [code_of(path, root) for path in found if path.suffix in SUFFIXES and not is_made(path)]


def is_made(path: Path) -> bool:
    """Whether the compiler wrote the file: the text of a cell, for editors of the library."""
    return path.parent.name == "example"


if __name__ == "__main__":
    pairs = pairs_in(files_in(sys.argv[1:] or ROOMS))
    for pair in sorted(pairs, key=lambda pair: -pair.lines):
        print(pair)
    print(f"{len(pairs)} pairs of places")
