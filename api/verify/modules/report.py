"""Writes a failing case of a module as Python that runs it again."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from ..program import program
from .case import ModuleCase


def report(case: ModuleCase, reasons: tuple[str, ...]) -> str:
    """Write a program that runs a case and prints its outcome.

    Args:
        case: a case that fails.
        reasons: what was wrong.
    """
    return program(
        "module.py.jinja",
        reasons=reasons,
        arguments=[each for each in _arguments(case) if not each.startswith("calls=")],
        calls=[_arguments(call) for call in case.calls],
    )


def _arguments(value: Any) -> list[str]:
    """Return the fields that differ from their defaults."""
    return [
        f"{field.name}={getattr(value, field.name)!r}"
        for field in fields(value)
        if field.default is MISSING or getattr(value, field.name) != field.default
    ]
