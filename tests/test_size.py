"""Each room has a budget of lines of code, in size.toml: raising one shows in a diff."""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUDGET = tomllib.loads((ROOT / "tests/size.toml").read_text())
# What has no code: line ends, comments, and how deep a line lies.
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def lines_of_code(text: str) -> int:
    """The lines that hold code: no empty ones, comments or docstrings."""
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            value = getattr(first, "value", None)
            if isinstance(first, ast.Expr) and isinstance(value, ast.Constant):
                found -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(found)


@cache
def size_of(path: Path) -> int:
    """The lines of code of a file, or of all files below a folder."""
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return sum(lines_of_code(file.read_text(encoding="utf-8")) for file in files)


def rooms() -> dict[str, int]:
    """The budgets of all rooms, by their paths."""
    runtime = {f"runtime/{name}": most for name, most in BUDGET["runtime"].items()}
    return runtime | BUDGET["package"]


@pytest.mark.parametrize("room", rooms())
def test_a_room_keeps_its_budget(room: str) -> None:
    found, most = size_of(ROOT / room), rooms()[room]
    assert found <= most, f"{room} has {found} lines of code, and size.toml allows {most}"
    assert most - found < 100, f"{room} has {found} lines of code: lower its {most} in size.toml"


def test_each_room_of_the_runtime_has_a_budget() -> None:
    here = {path.name for path in (ROOT / "runtime").iterdir() if path.name != "__pycache__"}
    assert here - {"__init__.py"} == set(BUDGET["runtime"])


def test_what_counts_as_code() -> None:
    body = '    """Run."""\n    # why\n    return """a\n\nb"""\n'
    text = f'"""A module."""\n\nimport os\n\n\ndef run():\n{body}'
    assert lines_of_code(text) == 5  # the import, the function, and a text of three lines
