"""Call of all layers of a module, besides its tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .forms import OWN, Form, RowsForm
from .layer_call import LayerCall, Order
from .masks import MadeMasks, Masks
from .ragged import Places, Ragged, RaggedKind
from .tensors import SomeTensors


class Tensors(NamedTuple):
    """Tensors of a call of all layers.

    Attributes:
        x: (T, B, input), (total, input) of packed rows, (B, input) of a single step, or wx,
            (B, T, N, D, Gx), of packed rows (total, N, D, Gx).
        states: before the first step, (layers * directions, B, hidden) each; or none.
        weights: the caller's parameters, None for each that there is not.
        ragged: lengths and resets; None where all rows run all steps.
        unweighted: as in `ScanInputs`, the same for all layers; or (layers * directions, B, T, N,
            D), those of each. `inputs_at` gives those of one.
        drawn: the mask of each dropout, (layers - 1, T, B, features), where the caller draws them.
    """

    x: Tensor
    states: Sequence[Tensor]
    weights: SomeTensors
    ragged: Ragged | None = None
    unweighted: Sequence[Tensor] = ()
    drawn: Tensor | None = None

    def before_weights(self) -> list[Tensor]:
        """Return all tensors that are no weights: they come first in a flat sequence."""
        rows = () if self.ragged is None else self.ragged.tensors()
        return [self.x, *self.states, *rows, *self.unweighted]

    def values(self) -> list[Tensor]:
        """Return the tensors of the call's dtype that there are."""
        reset_to = () if self.ragged is None else self.ragged.reset_to or ()
        weights = [weight for weight in self.weights if weight is not None]
        return [self.x, *self.states, *reset_to, *self.unweighted, *weights]

    def map(self, change: Callable[[Tensor], Tensor]) -> Tensors:
        """Return the same with each tensor of the call's dtype changed."""
        ragged = self.ragged
        if ragged is not None and ragged.reset_to is not None:
            ragged = ragged._replace(reset_to=[change(value) for value in ragged.reset_to])
        return Tensors(
            change(self.x),
            tuple([change(state) for state in self.states]),
            [None if weight is None else change(weight) for weight in self.weights],
            ragged,
            tuple([change(value) for value in self.unweighted]),
            self.drawn,
        )

    @property
    def places(self) -> Places | None:
        """Places of packed rows of a call that takes wx."""
        return None if self.ragged is None else self.ragged.places

    def padded(self, places: Places) -> Tensors:
        """Return the same call on padded rows; an x that there is not is left out."""
        assert self.ragged is not None
        missing: Any = None
        x = missing if self.x is None else places.pad(self.x).transpose(0, 1)
        return self._replace(x=x, ragged=self.ragged._replace(places=None))

    def zeros(self, needs: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of a step without rows, of the flat tensors that need one."""
        pairs = zip(self.flat(), needs, strict=True)
        return [torch.zeros_like(t) if need and t is not None else None for t, need in pairs]

    def flat(self) -> tuple[Tensor | None, ...]:
        """Return all tensors in one tuple; `Call.named` is the inverse."""
        x, states, weights, ragged, unweighted, drawn = self
        rows = () if ragged is None else ragged.tensors()
        more = () if drawn is None else (drawn,)
        return (x, *states, *rows, *unweighted, *weights, *more)


class Call(NamedTuple):
    """Call of all layers, besides its tensors.

    A layer has one direction of time or two. Weights, states and results of all of them lie in one
    sequence: those of a layer beside each other.

    Attributes:
        directions: the call of each direction of a layer.
        uppermost: the same of the last layer, whose states may all be wanted at all steps.
        heads: of each direction of a layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers; 0 outside of training.
        initial_values: of each state, where the caller gives no states.
        order: the caller's word for whether layers run at the same time.
        form: how the caller's parameters hold the weights of the layers.
        ragged: which tensors say how rows take steps; None where all rows run all steps.
        given: whether the caller gives the states before the first step.
        takes_wx: whether the caller gives the input's contribution to the gates, (B, T, N, D, Gx),
            in place of x. Such a call has one layer of one direction, and its states are (B, N, D).
        all_states: whether all states of the last layer are wanted at all steps.
        single: whether it is one step, which runs by kernels for single steps.
        drawn: whether the caller draws the masks of dropout.
        samples: how many samples the rows are of, one after the other: a backward gives the
            gradients of weights of each, on a first axis. 0 for their sum, without that axis.
        both: the same layers as layers of one direction, where both directions are one call.
    """

    directions: tuple[LayerCall, ...]
    uppermost: tuple[LayerCall, ...]
    layers: int
    heads: int
    dim: int
    dropout: float
    initial_values: tuple[float, ...]
    order: Order = "auto"
    form: Form = OWN
    ragged: RaggedKind | None = None
    given: bool = False
    takes_wx: bool = False
    all_states: bool = False
    single: bool = False
    drawn: bool = False
    samples: int = 0
    both: Call | None = None

    @property
    def target(self) -> str:
        """Name of the target that runs it."""
        return self.directions[0].target

    def directions_of(self, layer: int) -> tuple[LayerCall, ...]:
        """Return the call of each direction of a layer."""
        return self.directions if layer < self.layers - 1 else self.uppermost

    @property
    def states(self) -> int:
        """Number of states that the caller gives."""
        return len(self.initial_values) if self.given else 0

    @property
    def sequences(self) -> int:
        """Number of states of the last layer that are wanted at all steps."""
        return len(self.initial_values) if self.all_states else 1

    @property
    def results(self) -> int:
        """Number of results: states at all steps, and states after the last step."""
        return self.sequences + len(self.initial_values)

    def flat_weights(self, parameters: SomeTensors) -> SomeTensors:
        """Return what a single step reads of the caller's parameters: see `Form.of_step`."""
        return self.form.of_step(parameters, self.parts)

    @property
    def tf32(self) -> bool:
        """True if products may round factors of float32 to TF32."""
        return self.directions[0].tf32

    @property
    def at_once(self) -> bool:
        """True if layers may run at the same time: of one direction, forwards, without masks."""
        forwards = len(self.directions) == 1 and not self.directions[0].choice.reverse
        plain = self.ragged is None and not (self.inputs or self.all_states)
        return self.layers > 1 and forwards and plain

    @property
    def inputs(self) -> int:
        """Number of the cell's inputs that no weight multiplies."""
        return len(self.directions[0].cell.inputs)

    @property
    def gradients_of_inputs(self) -> list[bool]:
        """For each of them, whether the backward gives its gradient."""
        return [given.has_gradient for given in self.directions[0].cell.inputs]

    def named(self, flat: Sequence[Any]) -> Tensors:
        """Return the tensors that `Tensors.flat` flattened; those of weights may be fewer."""
        x, *rest = flat
        rows = self.states + (self.ragged.tensors if self.ragged else 0)
        end = rows + self.inputs
        ragged = self.ragged.named(rest[self.states : rows]) if self.ragged else None
        weights, drawn = rest[end:], None
        if self.drawn:
            *weights, drawn = weights
        return Tensors(x, tuple(rest[: self.states]), weights, ragged, tuple(rest[rows:end]), drawn)

    @property
    def by_head(self) -> bool:
        """True if gradients of weights lie head by head, as the parameters do."""
        joined = self.directions[0].choice.reverse == "half"
        return joined or (self.heads > 1 and isinstance(self.form, RowsForm))

    @property
    def reverses(self) -> tuple[bool, ...]:
        """Directions of a layer: True for each that runs from the last step to the first."""
        return tuple([layer_call.choice.reverse is True for layer_call in self.directions])

    def masks(self, ragged: Ragged | None, made: MadeMasks | None, index: int) -> Masks | None:
        """Return the masks of a direction, by its number among those of all layers, if any."""
        if ragged is None or made is None:
            return None
        reverse = self.directions[index % len(self.directions)].choice.reverse
        return made.at(index, ragged.reset_to, (self.heads, self.dim), reverse)

    @property
    def zero(self) -> tuple[bool, ...]:
        """States: True for each that is zero before the first step where the caller gives none."""
        return tuple([value == 0 for value in self.initial_values])

    @property
    def parts(self) -> int:
        """Number of directions of all layers."""
        return self.layers * len(self.directions)

    @property
    def runs(self) -> int:
        """Number of calls of all layers."""
        return self.parts if self.both is None else self.layers

    @property
    def scale(self) -> float:
        """Factor by which dropout multiplies the features that it keeps."""
        return 1 / (1 - self.dropout) if self.dropout < 1 else 0.0

    @property
    def features(self) -> int:
        """Number of features of the output of a layer."""
        return len(self.directions) * self.heads * self.dim


def as_one_direction(call: Call) -> Call:
    """Return the same layers, of two directions, as layers of one direction."""
    first = last = (_both_ways(call.directions[0]),)
    if call.uppermost != call.directions:
        last = (_both_ways(call.uppermost[0]),)
    return call._replace(directions=first, uppermost=last, heads=2 * call.heads)


def _both_ways(ahead: LayerCall) -> LayerCall:
    return replace(ahead, choice=ahead.choice._replace(reverse="half"))
