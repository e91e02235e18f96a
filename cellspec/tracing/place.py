"""Where the author of a cell stands: file and line, for messages."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

_HERE = Path(__file__).parents[1]


def place(filename: str, line: int) -> str:
    """`file:line`, the file relative to the working folder where it lies below it."""
    path = Path(filename)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{line}"


def place_of_caller() -> str:
    """The line that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(_HERE):
        frame = frame.f_back
    return place(frame.f_code.co_filename, frame.f_lineno)


def place_of_error(error: BaseException, filename: str) -> str:
    """The last line in the author's own file that an error passed through.

    Args:
        error: as it was caught.
        filename: the file of the cell's function; other libraries may lie between it and us.
    """
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if not Path(f.filename).is_relative_to(_HERE)]
    own = [f for f in outside if f.filename == filename] or outside
    return place(own[-1].filename, own[-1].lineno or 0)
