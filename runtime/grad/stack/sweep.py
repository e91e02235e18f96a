"""Backward from the last layer of a module to the first, and the tensors that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...call.layers import LayersRead, LayerWeights
from ...call.made_masks import MadeMasks
from ...call.ragged import Ragged
from ...call.stack import Stack
from ...call.tensors import Gradients, Saved
from ...targets.stack import lanes_for, target_for, weights_for
from ..rows import LayerRows
from .forward import dropped


class StackSaved(NamedTuple):
    """Tensors that the backward of a call of all layers reads, as the forward left them.

    `results` has the states of each call at all steps, and what its kernel saved; `masks` has the
    mask of each dropout. `made` has the masks of `ragged`. The others are as in `forward_layers`.
    """

    x: Tensor
    states: Sequence[Tensor]
    weights: list[LayerWeights]
    masks: Sequence[Tensor]
    results: Sequence[Sequence[Tensor]]
    ragged: Ragged | None = None
    made: MadeMasks | None = None
    unweighted: Sequence[Tensor] = ()

    @property
    def others(self) -> int:
        """Number of inputs of the call that come before its weights."""
        kind = None if self.ragged is None else self.ragged.kind
        return 1 + len(self.states) + (kind.tensors if kind else 0) + len(self.unweighted)


def saved_by_name(stack: Stack, given: int, flat: Sequence[Any]) -> StackSaved:
    """Return what a node of autograd saved: its inputs, and what `forward_layers` gave.

    `given` counts the caller's states: none, or all. `flat` has x, states, what `Ragged.tensors`
    gave, the cell's inputs, parameters, the mask of each dropout, what each run stored and, of a
    call with masks, `MadeMasks`.
    """
    x, *flat = flat
    made = None
    if stack.ragged is not None:
        count = len(MadeMasks._fields)
        made, flat = MadeMasks(*flat[-count:]), flat[:-count]
    each = len(stack.initial_values) + 1  # the states of a result, and what its kernel saved
    kept = len(flat) - each * stack.runs
    results = flat[kept:]
    states, ragged, unweighted, weights = stack.named(given, flat[:kept])
    first = len(weights) - (stack.layers - 1 if stack.dropout else 0)
    return StackSaved(
        x,
        states,
        weights_for(stack, weights[:first], forward=False),
        weights[first:],
        [results[place : place + each] for place in range(0, len(results), each)],
        ragged,
        made,
        unweighted,
    )


@dataclass(slots=True)
class Sweep:
    """Backward from the last layer to the first.

    `d_weights`, `d_firsts` (of the states before the first step) and `d_resets`
    (of the reset values, if there are any) have those of each direction of each layer computed so
    far, in the layers' order. `d_x` is of the input of all layers, if they ran at once.
    `d_unweighted` sums over layers and directions; None for each of the cell's inputs that is not
    wanted.
    """

    stack: Stack
    saved: StackSaved
    firsts: Sequence[Sequence[Tensor]]
    d_lasts: Sequence[Tensor | None]
    needs: Sequence[bool]
    donated: bool
    rows: LayerRows
    d_weights: list[list[Tensor | None]] = field(default_factory=list)
    d_firsts: list[Sequence[Tensor]] = field(default_factory=list)
    d_resets: list[Sequence[Tensor]] = field(default_factory=list)
    d_x: Tensor | None = None
    d_unweighted: list[Tensor | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.d_unweighted = [None] * len(self.saved.unweighted)

    def all_layers(self, d_y: Tensor | None) -> bool:
        """Run all layers where the target runs them at once; False where it runs each by itself."""
        stack, saved = self.stack, self.saved

        def finish(layer: int, found: Gradients) -> None:
            wanted = not layer and self.needs[0], self.needs[self._first_weight(layer)]
            own = saved.weights[layer]
            assert own.W is not None
            below = self._input_of(layer)
            read = self.rows.read(found.d_wx)
            self.d_x, d_W = self.rows.project_gradients(read, below, own.W, wanted)
            self.d_weights.insert(0, [d_W, *_given(found, own)])
            self.d_firsts.insert(0, found.d_initial_states)

        def read(layer: int) -> tuple[Saved, Sequence[Tensor | None]]:
            return self._saved(layer, self._input_of(layer)), self._d_last(layer)

        reads = LayersRead(saved.x, d_y, read, saved.masks, self.donated)
        asked = stack.asked(saved.weights, self.firsts)
        return target_for(stack).backward_layers(asked, reads, finish)

    def layer(self, layer: int, d_y: Tensor | None) -> Tensor | None:
        """Run a layer, and return the gradient of the output of the layer below, or of x."""
        stack, directions = self.stack, len(self.stack.calls)
        below = self._input_of(layer)
        d_states = self.rows.split(d_y)
        results = []
        with lanes_for(stack, self.saved.x, self.rows.sizes[0]) as lanes:
            for direction in range(directions):
                with lanes.lane(direction):
                    index = layer * directions + direction
                    results.append(self._direction(index, below, d_states[direction]))
        d_below: Tensor | None = None
        self.d_resets[:0] = [found.d_reset_to for found in results if found.d_reset_to is not None]
        d_weights, d_firsts = [], []
        for index, found in enumerate(results, layer * directions):
            d_below, d_W = self._products(index, found, below, d_below)
            d_weights.append([d_W, *_given(found, self.saved.weights[index])])
            d_firsts.append(found.d_initial_states)
            self._add_unweighted(found)
        self.d_weights[:0], self.d_firsts[:0] = d_weights, d_firsts
        return self._d_output(layer, below, d_below)

    def _add_unweighted(self, found: Gradients) -> None:
        """Add the gradients of the cell's inputs of a direction of a layer to those of others."""
        first = self.saved.others - len(self.saved.unweighted)
        for number, given in enumerate(self.saved.unweighted):
            if self.needs[first + number]:
                own, other = found.d_unweighted[number], self.d_unweighted[number]
                own = own.sum_to_size(given.shape)
                self.d_unweighted[number] = own if other is None else other + own

    def _d_output(self, layer: int, below: Tensor, d_below: Tensor | None) -> Tensor | None:
        """Return the gradient of the output of the layer below, from that of a layer's input."""
        masks = self.saved.masks
        if d_below is None and (layer or self.needs[0]):
            d_below = torch.zeros_like(below)
        if layer and masks and d_below is not None:
            d_below = dropped(self.stack, d_below, masks[layer - 1])
        return d_below

    def _direction(self, index: int, below: Tensor, d_y: Tensor | None) -> Gradients:
        """Run a direction of a layer."""
        stack, read = self.stack, self._saved(index, below)
        d_states = [d_y, *[None] * (len(read.states) - 1)]
        call = stack.calls[index % len(stack.calls)]
        return target_for(stack).backward(call, read, d_states, self._d_last(index), self.donated)

    def _products(
        self, index: int, found: Gradients, below: Tensor, d_below: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradient of a layer's input, added to its other direction's, and of W."""
        W = self.saved.weights[index].W
        if W is None:
            return d_below, None
        wanted = index >= len(self.stack.calls) or self.needs[0]
        both = wanted, self.needs[self._first_weight(index)]
        return self.rows.project_gradients(self.rows.read(found.d_wx), below, W, both, d_below)

    def _saved(self, index: int, below: Tensor) -> Saved:
        """Return what the forward of a direction of a layer left, whose input is given."""
        stack, own = self.stack, self.saved.weights[index]
        *sequences, kept = self.saved.results[index]
        choice = stack.calls[index % len(stack.calls)].choice
        again = target_for(stack).computes_gates_again(choice.save)
        return Saved(
            self.rows.project(below, own.W) if again else None,
            own.R,
            own.b if again else None,
            self.firsts[index],
            own.R_diag,
            own.params,
            sequences,
            kept,
            () if self.saved.states else stack.zero,
            masks=stack.masks(self.saved.ragged, self.saved.made, index),
            by_head=stack.by_head,
            unweighted=self.saved.unweighted,
        )

    def d_ragged(self) -> list[Tensor | None]:
        """Return the gradients of what says how rows take steps: of learned reset values alone."""
        ragged, found = self.saved.ragged, list[Tensor | None]()
        if ragged is None:
            return found
        for number, value in enumerate(ragged.reset_to or ()):
            gradient = None
            if value.ndim < 4:
                each = [d[number].flatten(1) for d in self.d_resets]
                each = [d.sum(0) for d in each] if value.ndim == 2 else each
                gradient = torch.stack(each)
            found.append(gradient)
        return [*[None] * (ragged.kind.tensors - len(found)), *found]

    def _d_last(self, index: int) -> Sequence[Tensor | None]:
        """Return the gradients of the last states of a direction of a layer, (B, N, D)."""
        plane = self.firsts[index][0].shape
        return [None if d is None else d[index].view(plane) for d in self.d_lasts]

    def _first_weight(self, index: int) -> int:
        """Return the place of W of a direction of a layer among all inputs."""
        saved = self.saved
        return saved.others + index * len(saved.weights[index].flat())

    def _input_of(self, layer: int) -> Tensor:
        """Return what a layer read: x, or the output below it without dropped features."""
        stack, saved, directions = self.stack, self.saved, len(self.stack.calls)
        if not layer:
            return first_input(stack, saved.x, saved.ragged, saved.made)
        results = saved.results[(layer - 1) * directions : layer * directions]
        below = self.rows.joined([result[0] for result in results])
        if saved.masks:
            below = dropped(stack, below, saved.masks[layer - 1])
        return below


def _given(found: Gradients, weights: LayerWeights) -> Sequence[Tensor | None]:
    """Return a gradient for each of R, b, R_diag and the params; None for each missing one."""
    return (
        None if weights.R is None else found.d_R,
        None if weights.b is None else found.d_b,
        None if weights.R_diag is None else found.d_R_diag,
        *found.d_params.unbind(0),
    )


def first_input(stack: Stack, x: Tensor, ragged: Ragged | None, made: MadeMasks | None) -> Tensor:
    """Return the input of the first layer with zeros where a row runs no step.

    Packed rows, (total, input), stay as they are.
    """
    if ragged is None or made is None or ragged.lengths is None or ragged.starts is not None:
        return x
    return target_for(stack).rows_that_run(x, ragged, made)
