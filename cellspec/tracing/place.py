"""The author's file and line, for messages."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

_HERE = Path(__file__).parents[1]


def place(filename: str, line: int) -> str:
    """`file:line`; a file below the working folder has a relative path."""
    path = Path(filename)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{line}"


def place_of_caller() -> str:
    """The line outside this package that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(_HERE):
        frame = frame.f_back
    return place(frame.f_code.co_filename, frame.f_lineno)


def place_of_error(error: BaseException, filename: str) -> str:
    """The last line in the author's own file that an error passed through.

    Args:
        error: the error.
        filename: the file of the cell's function; calls of other libraries may lie in between.
    """
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if not Path(f.filename).is_relative_to(_HERE)]
    own = [f for f in outside if f.filename == filename] or outside
    return place(own[-1].filename, own[-1].lineno or 0)
