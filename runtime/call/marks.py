"""Marks for `torch.compile` that do not import `torch._dynamo`, which takes a second.

`torch.compiler` imports it as soon as a function is marked, in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from torch._C._dynamo import eval_frame
from torch._compile import _disable_dynamo

P = ParamSpec("P")
Result = TypeVar("Result")


def constant_in_graphs(function: Callable[P, Result]) -> Callable[P, Result]:
    """Mark a function whose result graphs take for a constant; it is called as they are traced.

    `torch.compiler.assume_constant_result` does the same.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def outside_of_graphs(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that is never traced, as one of `torch.compiler.disable`.

    Its first call imports `torch._dynamo`.
    """
    return _disable_dynamo(function)


def never_traced(function: Callable[P, Result]) -> Callable[P, Result]:
    """Mark a function that is never traced, nor what it calls; calls take no longer for it.

    That is for a function which dynamo does not meet in the code that it traces: of an operator.
    """
    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)
    eval_frame.set_code_exec_strategy(function.__code__, strategy)
    return function
