"""A call of several layers of one direction of time, as a target reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from ..codegen.shape import PlanError
from .call import Call, Order
from .tensors import LayerWeights, Saved


def wavefront_error(what: str, why_not: str) -> PlanError:
    """The error of a call whose layers cannot run at the same time, although the caller wants it.

    Args:
        what: the call.
        why_not: what makes it impossible.
    """
    return PlanError(
        f'layers="wavefront", {what}',
        why_not,
        "layers of block or cluster plans that fit a GPU together, in one direction of time",
        'layers="auto"',
    )


class LayersCall(NamedTuple):
    """A call of layers, besides its input.

    Attributes:
        call: of each layer.
        order: the caller's word for how the layers run.
        heads: of a layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers.
        weights: of each layer.
        first: the states of each layer before the first step.
        drawn: the mask of each dropout, where the caller draws them.
    """

    call: Call
    order: Order
    heads: int
    dim: int
    dropout: float
    weights: Sequence[LayerWeights]
    first: Sequence[Sequence[Tensor]]
    drawn: Sequence[Tensor] = ()

    def input_weight(self, layer: int) -> Tensor:
        """W of a layer of a cell that takes input, as all layers have that run at the same time.

        Args:
            layer: its number.
        """
        weight = self.weights[layer].W
        assert weight is not None
        return weight

    @property
    def scale(self) -> float:
        """By what dropout multiplies the features that it keeps."""
        return 1 / (1 - self.dropout) if self.dropout < 1 else 0.0


class LayersRead(NamedTuple):
    """What the backward of a call of layers reads.

    Attributes:
        x: the input, (T, B, input).
        d_y: the gradient of the output, (T, B, features), or None for zero.
        layer: gives what a layer's forward saved and the gradients of its last states, (B, N, D)
            or None for zero, by its number.
        masks: of each dropout.
        donated: whether nobody reads what the kernels saved again: it may be overwritten.
    """

    x: Tensor
    d_y: Tensor | None
    layer: Callable[[int], tuple[Saved, Sequence[Tensor | None]]]
    masks: Sequence[Tensor]
    donated: bool
