"""Schemas of the operators, and the one place that orders a call's tensors by them.

Files of `torch.export` hold these schemas, so an argument may be added at the end, with a default,
and none may change. Their order of tensors is not the one of `rnnc.scan`, which all other code
uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..call.masks import Masks
from ..call.tensors import Gradients, Saved, ScanInputs

SCAN = (
    "(Tensor wx, Tensor? R, Tensor? R_diag, Tensor? b, Tensor[] params, Tensor[] initial,"
    " str cell, bool keep, bool[] over_time, str variant, str save, str? precision=None,"
    " bool reverse=False,"
    " Tensor? steps=None, Tensor? longest=None, Tensor[]? reset_to=None,"
    " Tensor[]? inputs=None) -> Tensor[]"
)
SCAN_BACKWARD = (
    "(Tensor?[] d_states, Tensor?[] d_last, Tensor? wx, Tensor? b, Tensor? R, Tensor? R_diag,"
    " Tensor[] params, Tensor[] initial, Tensor[] states, Tensor kept,"
    " str cell, str variant, str save, str? precision=None, bool reverse=False,"
    " Tensor? steps=None, Tensor? longest=None, Tensor[]? reset_to=None,"
    " Tensor[]? inputs=None) -> Tensor[]"
)
_SCAN_ARGUMENTS, _SCAN_BACKWARD_ARGUMENTS = 17, 19


def to_scan(inputs: ScanInputs) -> tuple[Any, ...]:
    """Return the first arguments of `rnnc::scan`."""
    lists = list(inputs.params), list(inputs.initial_states)
    return (inputs.wx, inputs.R, inputs.R_diag, inputs.b, *lists)


def from_scan(arguments: Sequence[Any]) -> tuple[ScanInputs, list[Any]]:
    """Return the inputs in the arguments of `rnnc::scan`, and its other arguments."""
    wx, R, R_diag, b, params, initial_states, *others = _with_defaults(arguments, _SCAN_ARGUMENTS)
    masks, unweighted = _from_last(*others[-4:])
    states, params = tuple(initial_states), tuple(params)
    return ScanInputs(wx, R, b, states, R_diag, params, masks, unweighted), others[:-4]


def to_scan_gradients(found: Gradients, saved: Saved, bias: bool) -> tuple[Any, ...]:
    """Return the gradient of each argument of `rnnc::scan`."""
    given = found.given(saved, bias)
    tensors = to_scan(given)
    d_reset_to = None
    if saved.masks is not None and saved.masks.reset_to is not None:
        d_reset_to = list(saved.masks.gradients(found.d_reset_to, len(saved.states))[2:])
    d_inputs = list(given.unweighted) or None
    return (*tensors, *(None,) * (_SCAN_ARGUMENTS - len(tensors) - 2), d_reset_to, d_inputs)


def to_last(call: ScanInputs | Saved) -> tuple[Any, ...]:
    """Return the last arguments of both operators, if a call has masks, or the cell inputs."""
    masks, unweighted = call.masks, list(call.unweighted)
    last: tuple[Any, ...] = (None, None, None)
    if masks is not None:
        values = None if masks.reset_to is None else list(masks.reset_to)
        last = masks.steps, masks.longest, values
    if unweighted:
        return (*last, unweighted)
    return () if masks is None else last


def _from_last(
    steps: Any, longest: Any, reset_to: Any, inputs: Any
) -> tuple[Masks | None, tuple[Any, ...]]:
    """Return the inverse of `to_last`."""
    unweighted = tuple(inputs or ())
    if steps is None:
        return None, unweighted
    return Masks(steps, longest, None if reset_to is None else tuple(reset_to)), unweighted


def to_backward(saved: Saved) -> tuple[Any, ...]:
    """Return the arguments of `rnnc::scan_backward` that a forward saved."""
    lists = list(saved.params), list(saved.initial_states), list(saved.states)
    return (saved.wx, saved.b, saved.R, saved.R_diag, *lists, saved.saved)


def from_backward(
    arguments: Sequence[Any], masks: Masks | None = None, unweighted: Sequence[Any] = ()
) -> Saved:
    """Return the inverse of `to_backward`."""
    wx, b, R, R_diag, params, initial_states, states, saved = arguments
    return Saved(
        wx,
        R,
        b,
        tuple(initial_states),
        R_diag,
        tuple(params),
        tuple(states),
        saved,
        masks=masks,
        unweighted=unweighted,
    )


def from_scan_backward(arguments: Sequence[Any]) -> tuple[Any, Any, Saved, list[Any]]:
    """Return `rnnc::scan_backward`'s d_states, d_last, what a forward saved, and the others."""
    d_states, d_last, *tensors = _with_defaults(arguments, _SCAN_BACKWARD_ARGUMENTS)
    saved = from_backward(tensors[:8], *_from_last(*tensors[-4:]))
    return d_states, d_last, saved, tensors[8:-4]


# Of the last arguments of both operators: precision, reverse and those of `to_last`.
_DEFAULTS = (None, False, None, None, None, None)


def _with_defaults(arguments: Sequence[Any], count: int) -> list[Any]:
    """Return all arguments of an operator: torch leaves out the last ones that are defaults."""
    missing = count - len(arguments)
    return [*arguments, *_DEFAULTS[len(_DEFAULTS) - missing :]]


def count_given(arguments: Sequence[Any]) -> int:
    """Return how many arguments of an operator torch takes as given: see `_with_defaults`."""
    count = len(arguments)
    for default in reversed(_DEFAULTS):
        if arguments[count - 1] is not default:
            break
        count -= 1
    return count


def to_results(gradients: Gradients) -> list[Tensor]:
    """Return the results of `rnnc::scan_backward`."""
    g = gradients
    single = (g.d_wx, g.d_R, g.d_R_diag, g.d_b, g.d_params)
    # Tensors of their own: an operator may not return views of one tensor.
    own = [
        d.transpose(0, 1).clone(memory_format=torch.contiguous_format).transpose(0, 1)
        for d in g.d_unweighted
    ]
    return [*single, *g.d_initial_states, *own, *(g.d_reset_to or ())]


def from_results(results: Sequence[Tensor], states: int, unweighted: int = 0) -> Gradients:
    """Return the inverse of `to_results`."""
    d_wx, d_R, d_R_diag, d_b, d_params, *rest = results
    end = states + unweighted
    d_reset_to, d_unweighted = rest[end:] or None, rest[states:end]
    return Gradients(d_wx, d_R, d_b, rest[:states], d_R_diag, d_params, d_reset_to, d_unweighted)
