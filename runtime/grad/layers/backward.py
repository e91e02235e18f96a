"""Backward of all layers of a module, from the last one to the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...call.call import Call, Tensors
from ...call.forms import LayerWeights
from ...call.requests import LayerBackward, LayersCall, LayersRead
from ...call.tensors import Gradients, Saved, SomeTensors, inputs_at
from ...program.samples import input_weight_of_samples, of_samples
from ...targets.registry import TARGETS
from .forward import Kept, dropped, stacked
from .given import (
    joint_ragged,
    joint_states,
    joint_weights,
    lanes_for,
    packed_weights,
    split_gradients,
    split_resets,
    states_for,
    weights_for,
)
from .rows import LayerRows, layer_rows


@dataclass(slots=True)
class Sweep:
    """Backward from the last layer to the first.

    `tensors` are those of the call, without x where it takes wx and the backward does not read it,
    and `weights` those of each direction of each layer. `kept` is what the forward left, with the
    mask of each dropout, also where the caller drew it.

    `d_weights`, `d_firsts` (of the states before the first step) and `d_resets`
    (of the reset values, if there are any) have those of each direction of each layer computed so
    far, in the layers' order. `d_x` is of the input of all layers, if they ran at once.
    `d_unweighted` sums over layers and directions that share an input; None for each of the cell's
    inputs that is not wanted.
    """

    call: Call
    tensors: Tensors
    weights: list[LayerWeights]
    kept: Kept
    firsts: Sequence[Sequence[Tensor]]
    d_lasts: SomeTensors
    needs: Sequence[bool]
    donated: bool
    rows: LayerRows
    d_weights: list[list[Tensor | None]] = field(default_factory=list)
    d_firsts: list[Sequence[Tensor]] = field(default_factory=list)
    d_resets: list[Sequence[Tensor]] = field(default_factory=list)
    d_x: Tensor | None = None
    d_unweighted: list[Tensor | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.d_unweighted = [None] * len(self.tensors.unweighted)

    @property
    def others(self) -> int:
        """Number of inputs of the call that come before its weights."""
        return len(self.tensors.before_weights())

    def all_layers(self, d_y: Tensor | None) -> bool:
        """Run all layers where the target runs them at once; False where it runs each by itself."""
        call = self.call

        def finish(layer: int, found: Gradients) -> None:
            wanted = not layer and self.needs[0], self.needs[self._first_weight(layer)]
            own = self.weights[layer]
            assert own.W is not None
            below = self._input_of(layer)
            read = self.rows.read(found.d_wx)
            self.d_x, d_W = self.rows.project_gradients(read, below, own.W, wanted)
            self.d_weights.insert(0, [d_W, *_given(found, own)])
            self.d_firsts.insert(0, found.d_initial_states)

        def read(layer: int) -> tuple[Saved, SomeTensors]:
            return self._saved(layer, self._input_of(layer)), self._d_last(layer)

        reads = LayersRead(self.tensors.x, d_y, read, self.kept.masks, self.donated, finish)
        asked = LayersCall(call, self.weights, self.firsts)
        return TARGETS[call.target].backward_layers(asked, reads)

    def layer(self, layer: int, d_sequences: SomeTensors) -> Tensor | None:
        """Run a layer on gradients of its output or states; return that of its input."""
        call, directions = self.call, len(self.call.directions)
        below = self._input_of(layer)
        d_states = list(zip(*map(self.rows.split, d_sequences), strict=True))
        results = []
        with lanes_for(call, self.firsts[0][0], self.rows.sizes[0]) as lanes:
            for direction in range(directions):
                with lanes.lane(direction):
                    index = layer * directions + direction
                    results.append(self._direction(index, below, d_states[direction]))
        d_below: Tensor | None = None
        self.d_resets[:0] = [found.d_reset_to for found in results if found.d_reset_to is not None]
        d_weights, d_firsts = [], []
        for index, found in enumerate(results, layer * directions):
            d_below, d_W = self._products(index, found, below, d_below)
            d_weights.append([d_W, *_given(found, self.weights[index])])
            d_firsts.append(found.d_initial_states)
            self._add_unweighted(index, found)
        self.d_weights[:0], self.d_firsts[:0] = d_weights, d_firsts
        if call.takes_wx:
            return self.rows.read(results[0].d_wx) if self.needs[0] else None
        return self._d_output(layer, below, d_below)

    def _add_unweighted(self, index: int, found: Gradients) -> None:
        """Add the gradients of the cell's inputs of a direction of a layer to those of others."""
        unweighted, count = self.tensors.unweighted, len(self.tensors.unweighted)
        first, have = self.others - count, self.call.gradients_of_inputs
        for number, given in enumerate(unweighted):
            if self.needs[first + number] and found.d_others is not None:
                place = sum(have[:number]) - sum(have)
                own, other = found.d_others[..., place], self.d_unweighted[number]
                own = own.sum_to_size(given.shape[-4:])
                if given.ndim == 5:  # each direction of each layer has values of its own
                    whole = own.new_empty(given.shape) if other is None else other
                    whole[index], self.d_unweighted[number] = own, whole
                else:
                    self.d_unweighted[number] = own if other is None else other + own

    def _d_output(self, layer: int, below: Tensor, d_below: Tensor | None) -> Tensor | None:
        """Return the gradient of the output of the layer below, from that of a layer's input."""
        masks = self.kept.masks
        if d_below is None and (layer or self.needs[0]):
            d_below = torch.zeros_like(below)
        if layer and masks and d_below is not None:
            d_below = dropped(self.call, d_below, masks[layer - 1])
        return d_below

    def _direction(self, index: int, below: Tensor, d_sequences: SomeTensors) -> Gradients:
        """Run a direction of a layer."""
        call, read = self.call, self._saved(index, below)
        d_states = [*d_sequences, *[None] * (len(read.states) - len(d_sequences))]
        layer_call, target = call.directions[index % len(call.directions)], TARGETS[call.target]
        asked = LayerBackward(read, d_states, self._d_last(index), self.donated)
        found = target.backward(layer_call, asked)
        return found if not call.samples else of_samples(layer_call, call.samples, read, found)

    def _products(
        self, index: int, found: Gradients, below: Tensor, d_below: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradient of a layer's input, added to its other direction's, and of W."""
        W = self.weights[index].W
        if W is None:
            return d_below, None
        wanted = index >= len(self.call.directions) or self.needs[0]
        d_wx, samples = self.rows.read(found.d_wx), self.call.samples
        needed = self.needs[self._first_weight(index)]
        both = wanted, needed and not samples
        d_below, d_W = self.rows.project_gradients(d_wx, below, W, both, d_below)
        return d_below, input_weight_of_samples(samples, d_wx, below) if samples and needed else d_W

    def _saved(self, index: int, below: Tensor) -> Saved:
        """Return what the forward of a direction of a layer left, whose input is given."""
        call, own = self.call, self.weights[index]
        *sequences, kept = self.kept.runs[index]
        choice = call.directions[index % len(call.directions)].choice
        again = TARGETS[call.target].computes_gates_again(choice.save)
        wx: Any = self.rows.project(below, own.W) if again else None
        masks = call.masks(self.tensors.ragged, self.kept.made, index)
        weights = own.R, own.b if again else None, self.firsts[index], own.R_diag, own.params
        return Saved(
            *(wx, *weights, masks, inputs_at(self.tensors.unweighted, index)),
            states=sequences,
            saved=kept,
            zero=() if call.given else call.zero,
            by_head=call.by_head,
            apart=call.samples > 0,
        )

    def d_ragged(self) -> list[Tensor | None]:
        """Return the gradients of what says how rows take steps: of learned reset values alone."""
        ragged, found = self.tensors.ragged, list[Tensor | None]()
        if ragged is None:
            return found
        for number, value in enumerate(ragged.reset_to or ()):
            gradient = None
            if value.ndim < 4:
                each = [d[number].flatten(1) for d in self.d_resets]
                each = [d.sum(0) for d in each] if value.ndim == 2 else each
                gradient = torch.stack(each)
            found.append(gradient)
        kind = ragged.kind
        first = kind.lengths + kind.reset
        return [*[None] * first, *found, *[None] * (kind.tensors - first - len(found))]

    def _d_last(self, index: int) -> SomeTensors:
        """Return the gradients of the last states of a direction of a layer, (B, N, D)."""
        if self.call.takes_wx:
            return self.d_lasts
        plane = self.firsts[index][0].shape
        return [None if d is None else d[index].view(plane) for d in self.d_lasts]

    def _first_weight(self, index: int) -> int:
        """Return the place of W of a direction of a layer among all inputs."""
        return self.others + index * len(self.weights[index].flat())

    def _input_of(self, layer: int) -> Tensor:
        """Return what a layer read, without dropped features; zero where x runs no step."""
        call, directions = self.call, len(self.call.directions)
        if not layer:
            x, ragged, made = self.tensors.x, self.tensors.ragged, self.kept.made
            # wx and packed rows stay as they are.
            padded = not call.takes_wx and ragged is not None and ragged.starts is None
            if not padded or ragged is None or ragged.lengths is None or made is None:
                return x
            return TARGETS[call.target].rows_that_run(x, ragged, made)
        results = self.kept.runs[(layer - 1) * directions : layer * directions]
        below = self.rows.joined([result[0] for result in results])
        if self.kept.masks:
            below = dropped(call, below, self.kept.masks[layer - 1])
        return below


def _given(found: Gradients, weights: LayerWeights) -> SomeTensors:
    """Return a gradient for each of R, b, R_diag and the params; None for each missing one."""
    return (
        None if weights.R is None else found.d_R,
        None if weights.b is None else found.d_b,
        None if weights.R_diag is None else found.d_R_diag,
        *found.d_params.unbind(0),
    )


def backward_layers(
    call: Call,
    tensors: Tensors,
    kept: Kept,
    gradients: SomeTensors,
    needs: Sequence[bool],
    donated: bool,
) -> list[Tensor | None]:
    """Return the gradient of each of the call's tensors, in their order, with weights by layer.

    Those not in `needs` may be None. `gradients` are of the results of the call, or None for zero.
    If `donated`, nobody reads what the kernels saved again: it may be overwritten.
    """
    if tensors.drawn is not None:
        kept = kept._replace(masks=tensors.drawn.unbind(0))
    target, run, own, wanted = TARGETS[call.target], call, tensors, needs
    d_sequences, d_lasts = gradients[: call.sequences], gradients[call.sequences :]
    weights = weights_for(call, tensors.weights, forward=False)
    if call.both is not None:
        run = call.both
        own, weights, d_lasts, wanted = _joint(call, tensors, weights, d_lasts, needs)
    elif call.by_head:
        weights = packed_weights(target, weights)
    steps, batch = kept.runs[-1][0].shape[:2]
    firsts = list(states_for(run, kept.runs[-1][0], batch, own.states))
    rows = layer_rows(run, (steps, batch), tensors)
    sweep = Sweep(run, own, weights, kept, firsts, d_lasts, wanted, donated, rows)
    if run.at_once and target.at_once and not run.samples and sweep.all_layers(d_sequences[0]):
        d_x = sweep.d_x
    else:
        for layer in range(run.layers - 1, -1, -1):
            d_x = sweep.layer(layer, d_sequences)
            d_sequences = (d_x,)
    d_states: list[Tensor | None] = []
    if call.takes_wx:
        d_states += sweep.d_firsts[0] if call.given else ()
    elif call.given:
        with target.moves() as moves:
            each = zip(*sweep.d_firsts, strict=True)
            d_states += [stacked(call, d_firsts, moves) for d_firsts in each]
    split = list if call.both is None else split_gradients
    d_ragged = sweep.d_ragged()
    d_states += d_ragged if call.both is None else map(split_resets, d_ragged)
    d_states += sweep.d_unweighted
    return [d_x, *d_states, *(d for layer in sweep.d_weights for d in split(layer))]


def _joint(
    call: Call,
    tensors: Tensors,
    weights: list[LayerWeights],
    d_lasts: SomeTensors,
    needs: Sequence[bool],
) -> tuple[Tensors, list[LayerWeights], SomeTensors, Sequence[bool]]:
    """Return tensors, weights, d_lasts and needs of a backward whose directions were one call."""
    first, count = len(tensors.before_weights()), len(weights[0].flat())
    with TARGETS[call.target].moves() as moves:
        states, weights = joint_states(tensors.states, moves), joint_weights(weights, moves)
        d_lasts = [None if d is None else joint_states([d], moves)[0] for d in d_lasts]
        ragged = joint_ragged(tensors.ragged, moves)
    wanted = list(needs[:first])
    for place in range(first, len(needs), 2 * count):
        two = needs[place : place + count], needs[place + count : place + 2 * count]
        wanted += [one or other for one, other in zip(*two, strict=True)]
    return tensors._replace(states=states, ragged=ragged), weights, d_lasts, wanted
