"""Registers rnnc's operators with torch as soon as both are imported.

Programs that `torch.export` saved name the operators, and a process that loads one may do no more
than `import rnnc`. Importing torch takes seconds, so `import rnnc` does not import it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_RUNTIME = f"{__package__}.runtime"
# What registers the targets, and what defines the operators, also those of earlier versions.
_OPERATORS = (f"{_RUNTIME}.run", f"{_RUNTIME}.grad.operators.earlier")


def register_operators() -> None:
    """Register the operators, if torch is imported."""
    if "torch" in sys.modules:
        for name in _OPERATORS:
            import_module(name)


def register_operators_after_torch() -> None:
    """Register the operators now, or at the end of torch's own import."""
    if "torch" in sys.modules:
        register_operators()
    else:
        sys.meta_path.insert(0, _AfterTorch())


class _AfterTorch(MetaPathFinder):
    """Finds torch as the other finders do; the operators are registered after torch has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                # A module of the runtime that imports torch is not complete yet.
                runtime_imports_torch = _RUNTIME in sys.modules
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                if not runtime_imports_torch:
                    register_operators()

            spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
