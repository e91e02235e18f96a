"""Writes a failing case of a module as Python that runs it again."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from .case import Call, ModuleCase


def report(case: ModuleCase, reasons: tuple[str, ...]) -> str:
    """Write a program that runs a case and prints its outcome.

    Args:
        case: a case that fails.
        reasons: what was wrong.
    """
    lines = [f"# {line}" for reason in reasons for line in reason.splitlines()]
    lines += [
        "from rnnc.verify.modules.case import Call, ModuleCase",
        "from rnnc.verify.modules.run import run_module",
        "",
        "case = ModuleCase(",
        *(f"    {each}," for each in _arguments(case) if not each.startswith("calls=")),
        "    calls=(",
        *(f"        {_text(call)}," for call in case.calls),
        "    ),",
        ")",
        "print(run_module(case))",
    ]
    return "\n".join(lines) + "\n"


def _text(call: Call) -> str:
    return f"Call({', '.join(_arguments(call))})"


def _arguments(value: Any) -> list[str]:
    """Return the fields that differ from their defaults."""
    return [
        f"{field.name}={getattr(value, field.name)!r}"
        for field in fields(value)
        if field.default is MISSING or getattr(value, field.name) != field.default
    ]
