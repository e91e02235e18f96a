"""The schemas of the operators, and the one place that orders a call's tensors by them.

Files of `torch.export` hold these schemas, so an argument may be added at the end, with a default,
and none may change. Their order of tensors is not
the one of `rnnc.scan`, which all other code uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..masks import Masks
from ..tensors import Gradients, Saved, ScanInputs

SCAN = (
    "(Tensor wx, Tensor? R, Tensor? R_diag, Tensor? b, Tensor[] params, Tensor[] initial,"
    " str cell, bool keep, bool[] over_time, str variant, str save, str? precision=None,"
    " bool reverse=False,"
    " Tensor? steps=None, Tensor? longest=None, Tensor[]? reset_to=None) -> Tensor[]"
)
SCAN_BACKWARD = (
    "(Tensor?[] d_states, Tensor?[] d_last, Tensor? wx, Tensor? b, Tensor? R, Tensor? R_diag,"
    " Tensor[] params, Tensor[] initial, Tensor[] states, Tensor kept,"
    " str cell, str variant, str save, str? precision=None, bool reverse=False,"
    " Tensor? steps=None, Tensor? longest=None, Tensor[]? reset_to=None) -> Tensor[]"
)
_SCAN_ARGUMENTS = 16


def to_scan(inputs: ScanInputs) -> tuple[Any, ...]:
    """The first arguments of `rnnc::scan`."""
    lists = list(inputs.params), list(inputs.initial_states)
    return (inputs.wx, inputs.R, inputs.R_diag, inputs.b, *lists)


def from_scan(arguments: Sequence[Any]) -> tuple[ScanInputs, list[Any]]:
    """The inputs in the arguments of `rnnc::scan`, and its other arguments."""
    wx, R, R_diag, b, params, initial_states, *others = _with_defaults(arguments, _SCAN_ARGUMENTS)
    masks = _from_masks(*others[-3:])
    inputs = ScanInputs(wx, R, b, tuple(initial_states), R_diag, tuple(params), masks)
    return inputs, others[:-3]


def to_scan_gradients(found: Gradients, saved: Saved, bias: bool) -> tuple[Any, ...]:
    """The gradient of each argument of `rnnc::scan`."""
    tensors = to_scan(found.given(saved, bias))
    d_reset_to = None
    if saved.masks is not None and saved.masks.reset_to is not None:
        d_reset_to = list(saved.masks.gradients(found.d_reset_to, len(saved.states))[2:])
    return (*tensors, *(None,) * (_SCAN_ARGUMENTS - len(tensors) - 1), d_reset_to)


def to_masks(call: ScanInputs | Saved) -> tuple[Any, ...]:
    """The last arguments of both operators, if a call has masks."""
    masks = call.masks
    if masks is None:
        return ()
    return masks.steps, masks.longest, None if masks.reset_to is None else list(masks.reset_to)


def _from_masks(steps: Any, longest: Any, reset_to: Any) -> Masks | None:
    """The inverse of `to_masks`."""
    if steps is None:
        return None
    return Masks(steps, longest, None if reset_to is None else tuple(reset_to))


def to_backward(saved: Saved) -> tuple[Any, ...]:
    """The arguments of `rnnc::scan_backward` that a forward saved."""
    lists = list(saved.params), list(saved.initial_states), list(saved.states)
    return (saved.wx, saved.b, saved.R, saved.R_diag, *lists, saved.saved)


def from_backward(arguments: Sequence[Any], masks: Masks | None = None) -> Saved:
    """The inverse of `to_backward`."""
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
    )


def from_scan_backward(arguments: Sequence[Any]) -> tuple[Any, Any, Saved, list[Any]]:
    """Of `rnnc::scan_backward`: d_states, d_last, what a forward saved, and the other arguments."""
    d_states, d_last, *tensors = _with_defaults(arguments, 18)
    saved = from_backward(tensors[:8], _from_masks(*tensors[-3:]))
    return d_states, d_last, saved, tensors[8:-3]


# Of the last arguments of both operators: precision, reverse and those of `to_masks`.
_DEFAULTS = (None, False, None, None, None)


def _with_defaults(arguments: Sequence[Any], count: int) -> list[Any]:
    """All arguments of an operator: torch leaves out the last ones that have their defaults."""
    missing = count - len(arguments)
    return [*arguments, *_DEFAULTS[len(_DEFAULTS) - missing :]]


def count_given(arguments: Sequence[Any]) -> int:
    """How many of all arguments of an operator torch takes as given: see `_with_defaults`."""
    count = len(arguments)
    for default in reversed(_DEFAULTS):
        if arguments[count - 1] is not default:
            break
        count -= 1
    return count


def to_results(gradients: Gradients) -> list[Tensor]:
    """The results of `rnnc::scan_backward`."""
    g = gradients
    single = (g.d_wx, g.d_R, g.d_R_diag, g.d_b, g.d_params)
    return [*single, *g.d_initial_states, *(g.d_reset_to or ())]


def from_results(results: Sequence[Tensor], states: int) -> Gradients:
    """The inverse of `to_results`."""
    d_wx, d_R, d_R_diag, d_b, d_params, *rest = results
    return Gradients(d_wx, d_R, d_b, rest[:states], d_R_diag, d_params, rest[states:] or None)
