"""Marks for `torch.compile` without an import of `torch._dynamo`, which takes a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from torch._C._dynamo import eval_frame
from torch._compile import _disable_dynamo

P = ParamSpec("P")
Result = TypeVar("Result")


def constant_in_graphs(function: Callable[P, Result]) -> Callable[P, Result]:
    """Mark a function whose result is a constant of graphs, as `assume_constant_result` does."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def outside_of_graphs(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that is never traced; its first call imports `torch._dynamo`."""
    return _disable_dynamo(function)


def never_traced(function: Callable[P, Result]) -> Callable[P, Result]:
    """Mark a function, called by an operator, that is never traced; calls take no longer for it."""
    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)
    eval_frame.set_code_exec_strategy(function.__code__, strategy)
    return function
