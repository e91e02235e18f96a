"""Lengths and resets of a module of torch, which its own forward does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from ...errors import TensorError
from .own import run_torch
from .serve import why_no_kernels

if TYPE_CHECKING:
    from .sequences import Sequences

# Lengths, resets and reset values of the caller, None each if there are none.
Masks = tuple[Any, Any, Any]


def named_masks(masks: Masks) -> dict[str, Any]:
    """Return the masks that the caller gave, by the names of the arguments."""
    named = zip(("lengths", "reset", "reset_to"), masks, strict=True)
    return {name: value for name, value in named if value is not None}


def check_packed(masks: Masks) -> None:
    """Refuse lengths and resets of a `PackedSequence`."""
    for name in named_masks(masks):
        raise TensorError(
            name,
            "an argument beside a PackedSequence, which has lengths of its own",
            "a padded tensor and its lengths",
            "torch.nn.utils.rnn.pad_packed_sequence(input)",
        )


def run_without_kernels(module: Sequences, input: Any, hx: Any, masks: Masks) -> Any:
    """Run torch's own forward, whose errors come first; then refuse lengths and resets."""
    found = run_torch(module, input, hx)
    for name in named_masks(masks):
        raise TensorError(
            name,
            f"a call that no kernels serve: {_why(module, input)}",
            "a call on kernels; torch's own forward has neither lengths nor resets",
            "rnnc.RNN, which takes them everywhere",
        )
    return found


def _why(module: Sequences, input: Any) -> str:
    """Return the reason why kernels do not serve a call."""
    if module.proj_size:
        return "proj_size"
    why = why_no_kernels(input.device, input.dtype) if isinstance(input, Tensor) else None
    if why is not None:
        return why
    if isinstance(input, Tensor) and 0 in input.shape:
        return "an empty tensor"
    return "autocast, a trace, a transform of torch.func, a subclass of Tensor or several dtypes"
