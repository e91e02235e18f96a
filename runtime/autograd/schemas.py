"""The schemas of the operators, and the one place that orders a call's tensors by them.

Files of `torch.export` hold these schemas, so an argument may be added at the end, with a default,
and none may change. Their order of tensors is not
the one of `rnnc.scan`, which all other code uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..tensors import Gradients, Saved, ScanInputs

SCAN = (
    "(Tensor wx, Tensor? R, Tensor? R_diag, Tensor? b, Tensor[] params, Tensor[] initial,"
    " str cell, bool keep, bool[] over_time, str variant, str save, str? precision=None,"
    " bool reverse=False) -> Tensor[]"
)
SCAN_BACKWARD = (
    "(Tensor?[] d_states, Tensor?[] d_last, Tensor? wx, Tensor? b, Tensor? R, Tensor? R_diag,"
    " Tensor[] params, Tensor[] initial, Tensor[] states, Tensor kept,"
    " str cell, str variant, str save, str? precision=None, bool reverse=False) -> Tensor[]"
)


def to_scan(inputs: ScanInputs) -> tuple[Any, ...]:
    """The first arguments of `rnnc::scan`."""
    lists = list(inputs.params), list(inputs.initial_states)
    return (inputs.wx, inputs.R, inputs.R_diag, inputs.b, *lists)


def from_scan(arguments: Sequence[Any]) -> tuple[ScanInputs, list[Any]]:
    """The inputs in the arguments of `rnnc::scan`, and its other arguments."""
    wx, R, R_diag, b, params, initial_states, *others = _with_defaults(arguments, 13)
    return ScanInputs(wx, R, b, tuple(initial_states), R_diag, tuple(params)), others


def to_backward(saved: Saved) -> tuple[Any, ...]:
    """The arguments of `rnnc::scan_backward` that a forward saved."""
    lists = list(saved.params), list(saved.initial_states), list(saved.states)
    return (saved.wx, saved.b, saved.R, saved.R_diag, *lists, saved.saved)


def from_backward(arguments: Sequence[Any]) -> Saved:
    """The inverse of `to_backward`."""
    wx, b, R, R_diag, params, initial_states, states, saved = arguments
    return Saved(
        wx, R, b, tuple(initial_states), R_diag, tuple(params), tuple(states), saved
    )  # fmt: skip


def from_scan_backward(arguments: Sequence[Any]) -> tuple[Any, Any, Saved, list[Any]]:
    """Of `rnnc::scan_backward`: d_states, d_last, what a forward saved, and the other arguments."""
    d_states, d_last, *tensors = _with_defaults(arguments, 15)
    return d_states, d_last, from_backward(tensors[:8]), tensors[8:]


# Of the last arguments of both operators: precision and reverse.
_DEFAULTS = (None, False)


def _with_defaults(arguments: Sequence[Any], count: int) -> list[Any]:
    """All arguments of an operator: torch leaves out the last ones that have their defaults."""
    missing = count - len(arguments)
    return [*arguments, *_DEFAULTS[len(_DEFAULTS) - missing :]]


def count_given(arguments: Sequence[Any]) -> int:
    """How many of all arguments of an operator torch takes as given: see `_with_defaults`."""
    count = len(arguments)
    for default in reversed(_DEFAULTS):
        if arguments[count - 1] != default:
            break
        count -= 1
    return count


def to_results(gradients: Gradients) -> list[Tensor]:
    """The results of `rnnc::scan_backward`."""
    g = gradients
    return [g.d_wx, g.d_R, g.d_R_diag, g.d_b, g.d_params, *g.d_initial_states]


def from_results(results: Sequence[Tensor]) -> Gradients:
    """The inverse of `to_results`."""
    d_wx, d_R, d_R_diag, d_b, d_params, *d_initial_states = results
    return Gradients(d_wx, d_R, d_b, d_initial_states, d_R_diag, d_params)
