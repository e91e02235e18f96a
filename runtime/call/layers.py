"""Calls of several layers in one direction of time, as a target reads them, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ...codegen.shape import PlanError
from .layer_call import LayerCall, Order
from .tensors import Saved


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


class LayersCall(NamedTuple):
    """Call of layers, besides its input.

    Attributes:
        layer_call: of each layer.
        order: the caller's word for how the layers run.
        heads: of a layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers.
        weights: of each layer.
        first: the states of each layer before the first step.
        drawn: the mask of each dropout, where the caller draws them.
    """

    layer_call: LayerCall
    order: Order
    heads: int
    dim: int
    dropout: float
    weights: Sequence[LayerWeights]
    first: Sequence[Sequence[Tensor]]
    drawn: Sequence[Tensor] = ()

    def input_weight(self, layer: int) -> Tensor:
        """Return W of a layer; cells of layers that run at the same time all take input."""
        weight = self.weights[layer].W
        assert weight is not None
        return weight

    @property
    def scale(self) -> float:
        """Factor by which dropout multiplies the features that it keeps."""
        return 1 / (1 - self.dropout) if self.dropout < 1 else 0.0


class LayersRead(NamedTuple):
    """Tensors that the backward of a call of layers reads.

    Attributes:
        x: the input, (T, B, input).
        d_y: the gradient of the output, (T, B, features), or None for zero.
        layer: gives what a layer's forward saved and the gradients of its last states, (B, N, D) or
            None for zero, by its number.
        masks: of each dropout.
        donated: whether nobody reads what the kernels saved again: it may be overwritten.
    """

    x: Tensor
    d_y: Tensor | None
    layer: Callable[[int], tuple[Saved, Sequence[Tensor | None]]]
    masks: Sequence[Tensor]
    donated: bool
