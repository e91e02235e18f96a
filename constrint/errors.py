"""Errors of ConstrINT: mistakes in a model."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DiagnosticError


class ConstrintError(Exception):
    """The base of every error that ConstrINT raises on purpose."""


class ModelError(ConstrintError, DiagnosticError):
    """A mistake in a model: says where it is, what was found and what to write."""


class UnknownVariableError(ModelError, KeyError, AttributeError):
    """A name that no variable of this model or solution has.

    Also a `KeyError` and an `AttributeError`, so that `in`, `get`, `hasattr` and `copy` behave.
    """


class TextError(ModelError):
    """A mistake in a model written as text; the message points at its column."""

    def __init__(
        self, line: int, column: int, source: str, found: str, wanted: str, write: str
    ) -> None:
        super().__init__(f"line {line}, column {column}", found, wanted, write)
        self.line = line
        self.column = column
        self.source = source

    def __str__(self) -> str:
        # Tabs are kept, so that the caret stands below its column in any editor.
        margin = "".join("\t" if c == "\t" else " " for c in self.source[: self.column - 1])
        return f"{self.where}\n    {self.source}\n    {margin}^\n{self.details}"


def unknown(where: str, name: object, names: Mapping[str, object]) -> UnknownVariableError:
    """The error for a name that is not among the names."""
    return UnknownVariableError(
        where, f"no variable {name!r}", "one of its variables", near(name, names)
    )


def near(name: object, names: Mapping[str, object]) -> str:
    """The known names closest to an unknown one, or the first eight names if none is close."""
    # Only a wrong name needs this import, which takes milliseconds.
    from difflib import get_close_matches

    close = get_close_matches(str(name), names, n=3) or list(names)[:8]
    return " or ".join(close) or "m.int(...) first; there is no variable yet"
