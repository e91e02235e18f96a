"""`rnnc explore`: finds the text to start from, and serves the page."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from pathlib import Path

from ..cellspec.errors import CellError
from ..cellspec.library import NAMES
from ..errors import RnncError
from ..explore.starts import start_of
from .console import print_lines

INSTALL = 'pip install "rnnc[explore]"'


class ExtraError(RnncError):
    """The page needs packages that are not installed, or another system."""


def open_explorer(cell: str, port: int, browser: bool) -> None:
    """Serve the page until Ctrl-C.

    Args:
        cell: a cell of the library, a file, or a file with a name in it.
        port: its number; 0 for a free one.
        browser: whether to open the page in a browser.

    Raises:
        RnncError: there is no such cell or file, no port, or NiceGUI is missing.
    """
    if sys.platform == "win32":
        raise ExtraError("rnnc explore", "Windows", "Linux, macOS or WSL", "rnnc report CELL")
    if importlib.util.find_spec("nicegui") is None:
        raise ExtraError("rnnc explore", "no NiceGUI", "the extra `explore`", INSTALL)
    from ..explore.page import Start
    from ..explore.serve import serve

    serve(Start(*_start(cell)), port, browser, print_lines)


def _start(cell: str) -> tuple[str, str, str, str, bool]:
    """The text, its file, the folder, the cell's name, and whether it may run unasked."""
    if cell in NAMES:
        return start_of(cell), "cell.py", str(Path.cwd()), cell, True
    file, colon, name = cell.rpartition(":")
    path = Path(file if colon and file.endswith(".py") else cell)
    if path.suffix != ".py":
        near = difflib.get_close_matches(cell.lower(), NAMES)
        write = " or ".join(near) or "my_cell.py"
        raise CellError("no such cell", "a cell of the library, or a Python file", write, cell)
    try:
        code = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "no text in UTF-8"
        raise CellError(found, "a Python file that can be read", "my_cell.py", str(path)) from error
    return code, path.name, str(path.resolve().parent), name if path == Path(file) else "", False
