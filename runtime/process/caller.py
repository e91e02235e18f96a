"""Warnings at the line of the caller, at any depth of calls between it and the one that warns."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from typing import Any, NamedTuple

# Frames of these are no caller's: this package, torch, which calls modules, and what wraps
# functions of either.
_BETWEEN = {__name__.partition(".")[0], "torch", "contextlib", "functools"}


class Line(NamedTuple):
    """A line of a program, counted from 1, and the warnings that its module has given already."""

    file: str
    number: int
    module: str
    registry: dict[Any, Any]


def calling_line() -> Line:
    """Find the line that called this package: of the innermost frame outside of it and torch.

    In a thread that only the package and torch run in, it is the thread's outermost line.
    """
    frame = sys._getframe()
    while frame.f_back is not None and _root(frame.f_globals) in _BETWEEN:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__", "<unknown>")
    return Line(frame.f_code.co_filename, frame.f_lineno, name, registry)


def _root(names: dict[str, Any]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]


def warn(message: str, line: Line | None = None) -> None:
    """Give a RuntimeWarning at the caller's line, or at `line` if another thread was called."""
    file, number, module, registry = line or calling_line()
    warnings.warn_explicit(message, RuntimeWarning, file, number, module, registry)


@cache
def warn_once(message: str) -> None:
    """Give a warning, but each text once per process."""
    warn(message)
