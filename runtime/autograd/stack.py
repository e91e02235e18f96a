"""A call of all layers of a module: its weights, what it is besides its tensors, its forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call import Call
from ..check.plain import profiler_enabled
from ..targets import TARGETS
from ..tensors import Forward, ScanInputs, States


class LayerWeights(NamedTuple):
    """The weights of a layer; None for each that the cell or the layer does not have.

    Attributes:
        W: (Gx, N, D, input), of the input.
        R: as in `ScanInputs`.
        b: as in `ScanInputs`.
        R_diag: as in `ScanInputs`.
        params: as in `ScanInputs`.
    """

    W: Tensor | None
    R: Tensor | None
    b: Tensor | None
    R_diag: Tensor | None
    params: tuple[Tensor, ...]

    def flat(self) -> tuple[Tensor | None, ...]:
        """All weights in one tuple; `weights_from` is the inverse."""
        return (self.W, self.R, self.b, self.R_diag, *self.params)


def weights_from(flat: Sequence[Any], layers: int) -> list[LayerWeights]:
    """The weights of all layers, from what `LayerWeights.flat` gave for each, in one sequence."""
    count = len(flat) // layers
    parts = (flat[first : first + count] for first in range(0, len(flat), count))
    return [LayerWeights(W, R, b, R_diag, tuple(more)) for W, R, b, R_diag, *more in parts]


class Stack(NamedTuple):
    """What a call of all layers is, besides its tensors.

    Attributes:
        call: the call of each layer.
        layers: their number.
        heads: of each layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers; 0 outside of training.
        initial_values: of each state, where the caller gives no states.
    """

    call: Call
    layers: int
    heads: int
    dim: int
    dropout: float
    initial_values: tuple[float, ...]

    def initial_states(
        self, like: Tensor, batch: int, states: Sequence[Tensor]
    ) -> Iterator[list[Tensor]]:
        """Of each layer, the states before the first step.

        Args:
            like: gives dtype and device where the caller gives no states.
            batch: rows.
            states: the caller's, (layers, B, hidden) each, or none.
        """
        shape = (batch, self.heads, self.dim)
        if not states:
            target = TARGETS[self.call.target]
            constant = target.initial_states(like, self.initial_values, shape)
            yield from [constant] * self.layers
        for layer in range(self.layers if states else 0):
            yield [state[layer].reshape(shape) for state in states]


class Run(NamedTuple):
    """What the forward of all layers gave.

    Attributes:
        y: the output of the last layer, (T, B, hidden).
        last: each state after the last step, (layers, B, hidden).
        results: of each layer.
        masks: of each dropout.
        first: the states of each layer before the first step.
    """

    y: Tensor
    last: States
    results: list[Forward]
    masks: list[Tensor]
    first: list[list[Tensor]]


def run_layers(
    stack: Stack, x: Tensor, states: Sequence[Tensor], weights: Sequence[LayerWeights]
) -> tuple[Tensor, States]:
    """The output and last states of all layers, where no gradient is wanted.

    Args:
        stack: the call.
        x: (T, B, input).
        states: before the first step, (layers, B, hidden) each; empty for their initial values.
        weights: of each layer.
    """
    with profiled("rnnc::scan"):
        run = forward_layers(stack, x, states, weights)
    return run.y, run.last


def forward_layers(
    stack: Stack, x: Tensor, states: Sequence[Tensor], weights: Sequence[LayerWeights]
) -> Run:
    """Run the forward of all layers, and keep what a backward reads.

    Args:
        stack: the call.
        x: (T, B, input).
        states: before the first step, (layers, B, hidden) each; empty for their initial values.
        weights: of each layer.
    """
    target = TARGETS[stack.call.target]
    steps, batch, _ = x.shape
    results: list[Forward] = []
    masks: list[Tensor] = []
    firsts = list(stack.initial_states(x, batch, states))
    for layer, (own, first) in enumerate(zip(weights, firsts, strict=True)):
        if layer and stack.dropout:
            x, mask = torch.native_dropout(x, stack.dropout, True)
            masks.append(mask)
        wx = project_input(stack, x, own.W)
        inputs = ScanInputs(wx, own.R, own.b, first, own.R_diag, own.params)
        # The buffer of the input's share was made here, and becomes that of the saved gates.
        results.append(target.forward(stack.call, inputs, donated=own.W is not None))
        x = results[-1].states[0].view(steps, batch, stack.heads * stack.dim)
    lasts = zip(*(result.last for result in results), strict=True)
    return Run(x, tuple([stacked(stack, each) for each in lasts]), results, masks, firsts)


def project_input(stack: Stack, x: Tensor, weight: Tensor | None) -> Tensor:
    """The input's contribution to the gates, in the layout of the input's device."""
    if weight is None:  # a cell that takes no input still runs for as many steps
        return x.new_empty(x.shape[1], x.shape[0], stack.heads, stack.dim, 0)
    call = stack.call
    return TARGETS[call.target].project_at(x, weight, call.tf32)


def stacked(stack: Stack, of_layers: Sequence[Tensor]) -> Tensor:
    """(layers, B, hidden) from a (B, N, D) per layer."""
    batch, heads, dim = of_layers[0].shape
    if stack.layers == 1:
        return of_layers[0].view(1, batch, heads * dim)
    return torch.stack(list(of_layers)).view(stack.layers, batch, heads * dim)


def profiled(name: str) -> AbstractContextManager[Any]:
    """A span in torch's profiler, where one runs."""
    return torch.profiler.record_function(name) if profiler_enabled() else nullcontext()
