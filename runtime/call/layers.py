"""Weights of layers, and the error of layers that cannot run at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ...codegen.shape import PlanError


def wavefront_error(what: str, why_not: str) -> PlanError:
    """Return the error of a call whose layers cannot run at the same time, as its caller wants."""
    return PlanError(
        f'layers="wavefront", {what}',
        why_not,
        "layers of block or cluster plans that fit a GPU together, in one direction of time",
        'layers="auto"',
    )


class LayerWeights(NamedTuple):
    """Weights of one direction of a layer; None for each that the cell or layer does not have.

    W is (Gx, N, D, input), the weight of the input. The others are as in `ScanInputs`.
    """

    W: Tensor | None
    R: Tensor | None
    b: Tensor | None
    R_diag: Tensor | None
    params: tuple[Tensor, ...]

    def flat(self) -> tuple[Tensor | None, ...]:
        """Return all weights in one tuple; `weights_from` is the inverse."""
        return (self.W, self.R, self.b, self.R_diag, *self.params)


def weights_from(flat: Sequence[Any], parts: int) -> list[LayerWeights]:
    """Return the weights of each of `parts`, layers times directions, from `LayerWeights.flat`."""
    count = len(flat) // parts
    each = (flat[first : first + count] for first in range(0, len(flat), count))
    return [LayerWeights(W, R, b, R_diag, tuple(more)) for W, R, b, R_diag, *more in each]
