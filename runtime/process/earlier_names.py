"""Names that pickles of earlier versions hold, of what has moved since.

A pickle names a module and an attribute, so a module that was saved whole loads as long as both are
found. Files that are written now hold the names of today.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
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


class _Earlier(MetaPathFinder, Loader):
    """Finds a module of an earlier version, and fills it with the name that pickles hold."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(f"{_RUNTIME}.")
        if name not in _MOVED or name == fullname:
            return None
        return ModuleSpec(fullname, self, is_package=not _MOVED[name][0])

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        """Take the name from the module of today."""
        name, today = _MOVED[module.__name__.removeprefix(f"{_RUNTIME}.")]
        if name:
            setattr(module, name, getattr(import_module(f"{_RUNTIME}.{today}"), name))


def find_earlier_names() -> None:
    """Let imports find the modules of earlier versions where there is none of today."""
    if not any(isinstance(finder, _Earlier) for finder in sys.meta_path):
        sys.meta_path.append(_Earlier())
