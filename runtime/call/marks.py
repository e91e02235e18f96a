"""Marks for `torch.compile` that do not import `torch._dynamo`, which takes a second.

`torch.compiler` imports it as soon as a function is marked, in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from torch._compile import _disable_dynamo

P = ParamSpec("P")
Result = TypeVar("Result")


def constant_in_graphs(function: Callable[P, Result]) -> Callable[P, Result]:
    """Take what a function gives for a constant, as `torch.compiler.assume_constant_result` does.

    Args:
        function: called while a graph is traced; it gets this mark.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def outside_of_graphs(function: Callable[P, Result]) -> Callable[P, Result]:
    """A function that is never traced, as one of `torch.compiler.disable`.

    Args:
        function: what it calls; the first call imports `torch._dynamo`.
    """
    return _disable_dynamo(function)
