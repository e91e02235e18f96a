"""Refusals of what the kernels of a target cannot do."""

from __future__ import annotations

from ...errors import TensorError
from .target import Target


def check_takes_masks(target: Target, name: str) -> None:
    """Raise a `TensorError` for lengths and resets if the kernels of the target have none."""
    if not target.takes_masks:
        raise TensorError(
            "lengths and reset",
            f"kernels for {name}, which run all steps of all rows",
            "a backend that takes lengths and resets",
            'backend="reference", a loop of torch operations',
        )


def check_takes_inputs(target: Target, name: str) -> None:
    """Raise a `TensorError` for a cell's inputs if the kernels of the target have none."""
    if not target.takes_inputs:
        raise TensorError(
            "inputs",
            f"kernels for {name}, which have no inputs that no weight multiplies",
            "a backend that takes a cell's Input",
            'backend="reference", a loop of torch operations',
        )
