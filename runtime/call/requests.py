"""Requests to a target: all layers, a backward of a step, gradients of a layer's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from .call import Call
from .forms import LayerWeights
from .layer_call import LayerCall
from .tensors import Gradients, LayerResults, Saved, SomeTensors, Stepped


class LayersCall(NamedTuple):
    """Call of layers, with the tensors of each besides its input.

    Attributes:
        first: the states before the first step.
        to: as in `ScanInputs`.
        drawn: the mask of each dropout, where the caller draws them.
    """

    call: Call
    weights: Sequence[LayerWeights]
    first: Sequence[Sequence[Tensor]]
    to: Sequence[LayerResults | None] = ()
    drawn: Sequence[Tensor] = ()

    @property
    def layer_call(self) -> LayerCall:
        """Call of each layer."""
        return self.call.directions[0]

    def input_weight(self, layer: int) -> Tensor:
        """Return W of a layer; cells of layers that run at the same time all take input."""
        weight = self.weights[layer].W
        assert weight is not None
        return weight


class LayersRead(NamedTuple):
    """Tensors that the backward of all layers reads, and what takes the gradients.

    Attributes:
        x: the input, (T, B, input).
        d_y: the gradient of the output, (T, B, features), or None for zero.
        layer: gives what a layer's forward saved and the gradients of its last states, (B, N, D) or
            None for zero, by its number.
        masks: of each dropout.
        donated: whether nobody reads what the kernels saved again: it may be overwritten.
        finish: takes the gradients of a layer, by its number.
    """

    x: Tensor
    d_y: Tensor | None
    layer: Callable[[int], tuple[Saved, SomeTensors]]
    masks: Sequence[Tensor]
    donated: bool
    finish: Callable[[int, Gradients], None]


class LayerBackward(NamedTuple):
    """Tensors that the backward of one direction of a layer reads.

    Attributes:
        saved: by its forward.
        d_states: gradients of each state at all steps, (T, B, N, D); None for zero.
        d_last: gradients of the last states, (B, N, D); None for zero.
        donated: whether nobody reads what the forward saved again: it may be overwritten.
    """

    saved: Saved
    d_states: SomeTensors
    d_last: SomeTensors
    donated: bool = False


class StepBackward(NamedTuple):
    """Tensors that a backward of a single step of all layers reads besides those of the call.

    `stepped` is what the step gave, `gradients` are of the output and each new state, None for
    zero, and `needs` says which are wanted, of x, the caller's states and the flat weights.
    """

    stepped: Stepped
    gradients: SomeTensors
    needs: Sequence[bool]


class InputBackward(NamedTuple):
    """Backward of the product of x (T, B, input) and a weight (Gx, N, D, input) of a layer.

    Attributes:
        d_wx: as a target's `backward` gives it.
        wanted: whether the gradients of x and of the weight are wanted.
        d_x: to what the gradient of x is added in place; None for a new tensor.
        by_head: whether the gradient of the weight lies head by head in memory, which saves a copy.
    """

    d_wx: Tensor
    x: Tensor
    weight: Tensor
    wanted: tuple[bool, bool]
    tf32: bool
    d_x: Tensor | None = None
    by_head: bool = False
