"""The author's file and line, for messages."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
import traceback
from pathlib import Path
from types import CodeType, FrameType

_HERE = Path(__file__).parents[1]


def place(filename: str, line: int) -> str:
    """`file:line`; a file below the working folder has a relative path."""
    path = Path(filename)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{line}"


def place_of_caller() -> str:
    """The line outside this package that called it."""
    frame = _caller()
    return place(frame.f_code.co_filename, frame.f_lineno)


def place_of_argument(code: CodeType, name: str) -> str:
    """The line of a function's signature that declares an argument.

    Args:
        code: of the function. Where its file is not there, its first line stands for all.
        name: of the argument.
    """
    first = code.co_firstlineno
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError):
        return place(code.co_filename, first)
    lines = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.arg) and n.arg == name]
    return place(code.co_filename, first + (lines[0] if lines else 1) - 1)


def _caller() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(_HERE):
        frame = frame.f_back
    return frame


def expression_at_caller() -> str:
    """The text of what the line outside this package evaluates; empty if its file is not there."""
    frame = _caller()
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return _text_at(frame.f_code.co_filename, positions)


def _text_at(filename: str, positions: tuple[int | None, ...]) -> str:
    """The text between positions of one line; empty if it has several, or the file is not there.

    Args:
        filename: of the text.
        positions: the first and the last line, and the first byte and the end in it.
    """
    first, last, begin, end = positions
    line = linecache.getline(filename, first or 0).encode()
    return line[begin:end].decode() if first is not None and first == last else ""


def place_of_error(error: BaseException, filename: str) -> str:
    """The last line in the author's own file that an error passed through.

    Args:
        error: the error.
        filename: the file of the cell's function; calls of other libraries may lie in between.
    """
    frame = _frame_of_error(error, filename)
    return place(frame.filename, frame.lineno or 0)


def expression_of_error(error: BaseException, filename: str) -> str:
    """The text of what raised an error in the author's own file; empty if it is not there.

    Args:
        error: the error.
        filename: the file of the cell's function.
    """
    frame = _frame_of_error(error, filename)
    positions = (frame.lineno, frame.end_lineno, frame.colno, frame.end_colno)
    return _text_at(frame.filename, positions)


def _frame_of_error(error: BaseException, filename: str) -> traceback.FrameSummary:
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if not Path(f.filename).is_relative_to(_HERE)]
    own = [f for f in outside if f.filename == filename] or outside
    return own[-1]


def raised_here(error: BaseException) -> bool:
    """Return True if this package raised an error, or what it called in C."""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(_HERE)
