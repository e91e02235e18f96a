"""Refusal of what the kernels of a target cannot do."""

from __future__ import annotations

from ...errors import TensorError
from ..call.call import Tensors
from .target import Target


def check_takes(target: Target, name: str, tensors: Tensors) -> None:
    """Raise a `TensorError` for lengths, resets or inputs of the cell that a target lacks."""
    if tensors.ragged is not None and not target.takes_masks:
        raise TensorError(
            "lengths and reset",
            f"kernels for {name}, which run all steps of all rows",
            "a backend that takes lengths and resets",
            'backend="reference", a loop of torch operations',
        )
    if tensors.unweighted and not target.takes_inputs:
        raise TensorError(
            "inputs",
            f"kernels for {name}, which have no inputs that no weight multiplies",
            "a backend that takes a cell's Input",
            'backend="reference", a loop of torch operations',
        )
