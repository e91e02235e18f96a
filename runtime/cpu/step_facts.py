"""Facts of a call that a single step on the CPU reads, and the choice of who multiplies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch

from ..call.facts import facts_of
from ..call.layer_call import LayerCall
from .compile import cpu_library, plan_of

# The kernel multiplies for so few batch rows, or for so small a product of a layer's weights and
# the square of the rows. Beyond, torch's products are faster, since they use a matrix for more rows
# at once, and what a call of torch takes weighs less.
_FEW_ROWS = 16
_FEW = 2**26


class StepFacts(NamedTuple):
    """Kernels and counts of a call.

    Attributes:
        gates: all gates of the cell.
        inputs: gates with an input.
        matrices: of the input or of the states, whichever are more.
        weights: of a layer: as many as `LayerWeights.flat` has.
        saved: values per unit that a backward reads; 0 if none follows.
    """

    forward: Callable[[bytes], object]
    backward: Callable[[bytes], object]
    gates: int
    inputs: int
    matrices: int
    weights: int
    saved: int

    def multiplies(self, batch: int, hidden: int, features: int) -> bool:
        """Return True if the kernel multiplies the matrices too; else torch does."""
        if batch <= _FEW_ROWS:
            return True
        return batch * batch * self.matrices * hidden * max(features, hidden) <= _FEW


@lru_cache(maxsize=1024)
def facts_of_step(layer_call: LayerCall, dtype: torch.dtype) -> StepFacts:
    """Return the facts of a call."""
    counts = facts_of(layer_call.cell).counts
    library = cpu_library(layer_call.cell, plan_of(dtype, single_step=True))
    return StepFacts(
        library.rnnc_step,
        library.rnnc_step_backward,
        counts.gates,
        counts.inputs,
        max(counts.inputs, counts.dense),
        4 + counts.params,
        counts.saved if layer_call.for_backward else 0,
    )
