"""Refusals of what the kernels of a target cannot do."""

from __future__ import annotations

from ..errors import TensorError
from .target import Target


def check_takes_masks(target: Target, name: str) -> None:
    """Refuse lengths and resets for a target whose kernels have none.

    Args:
        target: of the call.
        name: its name.

    Raises:
        TensorError: it takes none.
    """
    if not target.takes_masks:
        raise TensorError(
            "lengths and reset",
            f"kernels for {name}, which run all steps of all rows",
            "a backend that takes lengths and resets",
            'backend="reference", a loop of torch operations',
        )


def check_takes_inputs(target: Target, name: str) -> None:
    """Refuse cells with inputs for a target whose kernels have none.

    Args:
        target: of the call.
        name: its name.

    Raises:
        TensorError: it takes none.
    """
    if not target.takes_inputs:
        raise TensorError(
            "inputs",
            f"kernels for {name}, which have no inputs that no weight multiplies",
            "a backend that takes a cell's Input",
            'backend="reference", a loop of torch operations',
        )
