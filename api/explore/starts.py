"""The texts that the editor starts from: the library's cells, as a user writes them."""

from __future__ import annotations

import ast
from functools import cache
from importlib import resources

from ..cellspec.library import NAMES

_DECORATOR = "cell"


@cache
def start_of(name: str) -> str:
    """The text of a library cell as a user writes it.

    Args:
        name: of the cell.

    Raises:
        KeyError: the library has no such cell.

    Example:
        >>> from rnnc.explore.starts import start_of
        >>> print(start_of("elman").splitlines()[3])
        from rnnc import Gate, State, tanh
    """
    if name not in NAMES:
        raise KeyError(name)
    text = resources.files("rnnc.cellspec.library").joinpath(f"{name}.py").read_text("utf-8")
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names} - {_DECORATOR}
    # As `ruff` sorts them: classes first.
    words = sorted(names, key=lambda word: (word[0].islower(), word))
    lines = text.splitlines()
    first, last = imports[0].lineno - 1, (imports[-1].end_lineno or imports[-1].lineno)
    lines[first:last] = ["import rnnc", f"from rnnc import {', '.join(words)}"]
    whole = "\n".join(lines) + "\n"
    return whole.replace(f"\n@{_DECORATOR}\n", f"\n@rnnc.{_DECORATOR}\n")
