"""Errors in the words of tables and records."""

from __future__ import annotations

from ..codegen.shape import PlanError
from .rows import BenchError


def reason(error: Exception) -> str:
    """An error in one line, with its kind."""
    if isinstance(error, PlanError):
        return f"no such plan: found {error.found}; wanted {error.wanted}"
    if isinstance(error, BenchError):
        return f"found {error.found}; wanted {error.wanted}; write {error.write}"
    if isinstance(error, TimeoutError):
        return str(error)
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:400]
