"""Packages of other projects, which need not be installed."""

from __future__ import annotations

import importlib
from typing import Any

from ..rows import BenchError


def package(module: str, name: str, write: str, device: str = "cuda") -> Any:
    """A module of a package whose kernels run on a GPU.

    Raises:
        BenchError: it cannot be imported, or there is no GPU.

    Example:
        >>> from rnnc.bench.contenders.packages import package
        >>> from rnnc.bench.rows import BenchError
        >>> try:
        ...     package("no_such_module", "Example", "pip install example")
        ... except BenchError as error:
        ...     print(error.found)
        not installed: No module named 'no_such_module'
    """
    if device != "cuda":
        raise BenchError(f"device {device!r}", f"a GPU, where {name} has kernels", "--device cuda")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BenchError(f"not installed: {error}", name, write) from error
