"""Names that pickles of earlier versions hold, of what has moved since.

A pickle names a module and an attribute, so a module that was saved whole loads as long as both are
found. Files that are written now hold the names of today.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from types import ModuleType

_RUNTIME = __package__.rpartition(".")[0]
# By the module of an earlier version: the name that pickles take from it, and the module of today.
# No name stands for a package that was there only to hold others.
_MOVED = {
    "call.named": ("Named", "call.forms"),
    "call.rows_form": ("rows_form", "call.forms"),
    "composed": ("", ""),
    "composed.projection": ("Projection", "call.projection"),
    "module.known_calls": ("KnownCalls", "run.known_calls"),
    "module.rows": ("rows_form", "call.forms"),
    "module.weights": ("Named", "call.forms"),
}


def find_earlier_names() -> None:
    """Let imports find modules of earlier versions, each with the name that pickles hold."""
    for earlier, (name, today) in _MOVED.items():
        module = ModuleType(f"{_RUNTIME}.{earlier}")
        # Python asks it for a name that the module lacks. What has no name holds other modules.
        found = partial(_from_today, module.__name__, name, f"{_RUNTIME}.{today}")
        given: dict[str, object] = {"__getattr__": found} if name else {"__path__": []}
        vars(module).update(given)
        sys.modules.setdefault(module.__name__, module)


def _from_today(module: str, name: str, today: str, asked: str) -> object:
    if asked != name:
        raise AttributeError(f"module {module!r} has no attribute {asked!r}")
    return getattr(import_module(today), name)
