"""A call of all layers of a module: what it is besides its tensors, and its forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call import Call, Order
from ..check.plain import profiler_enabled
from ..layers_call import LayersCall, LayerWeights
from ..module.forms import OWN, Form
from ..module.rows import RowsForm
from ..targets import TARGETS, Lanes, LayersTarget, Target
from ..tensors import Forward, ScanInputs, States
from .directions.joint import joint_stack, joint_states, joint_weights
from .directions.lanes import NOTHING, ONE_LANE
from .moves import Moves, moves_of, packed_weights


class Stack(NamedTuple):
    """What a call of all layers is, besides its tensors.

    A layer has one direction of time or two. Weights, states and results of all of them lie in one
    sequence: those of a layer beside each other.

    Attributes:
        calls: the call of each direction of a layer.
        layers: their number.
        heads: of each direction of a layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers; 0 outside of training.
        initial_values: of each state, where the caller gives no states.
        order: the caller's word for whether layers run at the same time.
        joint: whether both directions of a layer are one call.
        form: how the caller's parameters hold the weights of the layers.
    """

    calls: tuple[Call, ...]
    layers: int
    heads: int
    dim: int
    dropout: float
    initial_values: tuple[float, ...]
    order: Order = "auto"
    joint: bool = False
    form: Form = OWN

    def weights(self, parameters: Sequence[Tensor | None]) -> list[LayerWeights]:
        """Those of each direction of each layer.

        Args:
            parameters: the caller's.
        """
        form = self.form
        if isinstance(form, RowsForm):
            by_address = getattr(self.target, "reads_by_address", False)
            return form.weights(parameters, self.parts, by_address)
        return form.weights(parameters, self.parts)

    def flat_weights(self, parameters: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """What a single step reads, as `Form.of_step` gives it.

        Args:
            parameters: the caller's.
        """
        return self.form.of_step(parameters, self.parts)

    @property
    def target(self) -> Target:
        """What runs the calls."""
        return TARGETS[self.calls[0].target]

    @property
    def tf32(self) -> bool:
        """Whether products may round factors of float32 to TF32."""
        return self.calls[0].tf32

    @property
    def at_once(self) -> LayersTarget | None:
        """The target where it may run layers at the same time: all of one direction, forwards."""
        target = self.target
        forwards = len(self.calls) == 1 and not self.calls[0].choice.reverse
        if self.layers > 1 and forwards and isinstance(target, LayersTarget):
            return target
        return None

    def asked(
        self,
        weights: Sequence[LayerWeights],
        first: Sequence[Sequence[Tensor]],
        drawn: Sequence[Tensor] = (),
    ) -> LayersCall:
        """The call of layers of one direction of time, as a target reads it.

        Args:
            weights: of each layer.
            first: the states of each layer before the first step.
            drawn: the mask of each dropout, where the caller draws them.
        """
        kind = self.calls[0], self.order, self.heads, self.dim, self.dropout
        return LayersCall(*kind, weights, first, drawn)

    @property
    def by_head(self) -> bool:
        """Whether gradients of weights lie head by head, as the parameters do."""
        joined = self.calls[0].choice.reverse == "half"
        return joined or (self.heads > 1 and isinstance(self.form, RowsForm))

    def lanes(self, x: Tensor) -> AbstractContextManager[Lanes]:
        """What runs the directions of a layer, at once where the target can.

        Args:
            x: (T, B, input).
        """
        found = self.target.lanes(x, x.shape[0]) if len(self.calls) > 1 else None
        return ONE_LANE if found is None else found

    @property
    def zero(self) -> tuple[bool, ...]:
        """For each state, whether it is zero before the first step where the caller gives none."""
        return tuple([value == 0 for value in self.initial_values])

    @property
    def parts(self) -> int:
        """Directions of all layers."""
        return self.layers * len(self.calls)

    @property
    def runs(self) -> int:
        """Calls of all layers."""
        return self.layers if self.joint else self.parts

    @property
    def scale(self) -> float:
        """By what dropout multiplies the features that it keeps."""
        return 1 / (1 - self.dropout) if self.dropout < 1 else 0.0

    @property
    def features(self) -> int:
        """Of the output of a layer."""
        return len(self.calls) * self.heads * self.dim

    def initial_states(
        self, like: Tensor, batch: int, states: Sequence[Tensor]
    ) -> Iterator[list[Tensor]]:
        """Of each direction of each layer, the states before the first step.

        Args:
            like: gives dtype and device where the caller gives no states.
            batch: rows.
            states: the caller's, (layers * directions, B, hidden) each, or none.
        """
        shape, count = (batch, self.heads, self.dim), self.parts
        if not states:
            yield from [self.target.initial_states(like, self.initial_values, shape)] * count
        for index in range(count if states else 0):
            yield [state[index].reshape(shape) for state in states]


class Run(NamedTuple):
    """What the forward of all layers gave.

    Attributes:
        y: the output of the last layer, (T, B, features).
        last: each state after the last step, (layers * directions, B, hidden).
        results: of each call.
        masks: of each dropout.
        first: the states of each call before its first step.
    """

    y: Tensor
    last: States
    results: list[Forward]
    masks: list[Tensor]
    first: list[list[Tensor]]


def forward_layers(
    stack: Stack,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[LayerWeights],
    drawn: Sequence[Tensor] = (),
) -> Run:
    """Run the forward of all layers, and keep what a backward reads.

    Args:
        stack: the call.
        x: (T, B, input).
        states: before the first step, (layers * directions, B, hidden) each; empty for their
            initial values.
        weights: of each direction of each layer.
        drawn: the mask of each dropout, where the caller draws them.
    """
    run = stack
    if stack.joint:
        run = joint_stack(stack)
        with moves_of(stack.target) as moves:
            states, weights = joint_states(states, moves), joint_weights(weights, moves)
    elif stack.by_head:
        weights = packed_weights(stack.target, weights)
    firsts = list(run.initial_states(x, x.shape[1], states))
    found = None
    if (target := run.at_once) is not None:
        found = target.forward_layers(run.asked(weights, firsts, drawn), x)
    results, masks = found or _one_by_one(run, x, weights, firsts, drawn)
    y = joined(run, [result.states[0] for result in results[-len(run.calls) :]])
    lasts = zip(*(result.last for result in results), strict=True)
    with moves_of(stack.target) as moves:
        last = tuple([stacked(stack, each, moves) for each in lasts])
    return Run(y, last, results, masks, firsts)


def _one_by_one(
    stack: Stack,
    x: Tensor,
    weights: Sequence[LayerWeights],
    firsts: Sequence[Sequence[Tensor]],
    drawn: Sequence[Tensor],
) -> tuple[list[Forward], list[Tensor]]:
    """The results of all layers, one after the other, and the mask of each dropout."""
    target, directions = stack.target, len(stack.calls)
    results: list[Forward] = []
    masks: list[Tensor] = []
    for layer in range(stack.layers):
        if layer:
            x = joined(stack, [result.states[0] for result in results[-directions:]])
        if layer and drawn:
            x = dropped(stack, x, drawn[layer - 1])
        elif layer and stack.dropout:
            x, mask = torch.native_dropout(x, stack.dropout, True)
            masks.append(mask)
        with stack.lanes(x) as lanes:
            for direction, call in enumerate(stack.calls):
                index = layer * directions + direction
                own = weights[index]
                with lanes.lane(direction):
                    wx = project_input(stack, x, own.W)
                    inputs = ScanInputs(wx, own.R, own.b, firsts[index], own.R_diag, own.params)
                    # Its buffer was made here, and becomes that of the saved gates.
                    results.append(target.forward(call, inputs, donated=own.W is not None))
    return results, masks


def dropped(stack: Stack, features: Tensor, mask: Tensor) -> Tensor:
    """Features, or their gradients, without those that a mask drops."""
    kept: Tensor = torch.ops.aten.native_dropout_backward(features, mask, stack.scale)
    return kept


def joined(stack: Stack, outputs: Sequence[Tensor]) -> Tensor:
    """(T, B, features) from a (T, B, N, D) per direction of a layer.

    Args:
        stack: the call.
        outputs: of each direction.
    """
    steps, batch, heads, dim = outputs[0].shape
    if len(outputs) == 1:
        return outputs[0].view(steps, batch, heads * dim)
    return torch.cat(list(outputs), 2).view(steps, batch, stack.features)


def project_input(stack: Stack, x: Tensor, weight: Tensor | None) -> Tensor:
    """The input's contribution to the gates, in the layout of the input's device."""
    if weight is None:  # a cell that takes no input still runs for as many steps
        return x.new_empty(x.shape[1], x.shape[0], stack.heads, stack.dim, 0)
    return stack.target.project_at(x, weight, stack.tf32)


def stacked(stack: Stack, each: Sequence[Tensor], moves: Moves) -> Tensor:
    """A state of all directions of all layers.

    Args:
        stack: the call.
        each: (B, N, D) of each run, whose heads are those of both directions if the stack is joint.
        moves: copies them.

    Returns:
        (layers * directions, B, hidden).
    """
    batch, hidden, own = each[0].shape[0], stack.heads * stack.dim, 2 if stack.joint else 1
    parts = [state.view(batch, own, hidden).transpose(0, 1) for state in each]
    return parts[0] if len(parts) == own == 1 else moves.cat(parts, 0)


def profiled(name: str) -> AbstractContextManager[Any]:
    """A span in torch's profiler, where one runs."""
    return torch.profiler.record_function(name) if profiler_enabled() else NOTHING
