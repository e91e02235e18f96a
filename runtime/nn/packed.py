"""A `PackedSequence` as the input of a module of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.nn.utils.rnn import PackedSequence

from .own import run_torch

if TYPE_CHECKING:
    from .sequences import Sequences


def run_packed(module: Sequences, input: PackedSequence, hx: Any) -> Any:
    """Run all layers over sequences of several lengths.

    Args:
        module: has the parameters.
        input: the sequences.
        hx: the states before the first step, in the caller's order of sequences.

    Returns:
        A `PackedSequence`, and the states after each sequence's last step.
    """
    return run_torch(module, input, hx)
