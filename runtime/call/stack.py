"""Call of all layers of a module, besides its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from .call import Call, Order
from .forms import OWN, Form
from .layers import LayersCall, LayerWeights
from .made_masks import MadeMasks
from .masks import Masks
from .ragged import Ragged, RaggedKind
from .rows_form import RowsForm


class Stack(NamedTuple):
    """Call of all layers, besides its tensors.

    A layer has one direction of time or two. Weights, states and results of all of them lie in one
    sequence: those of a layer beside each other.

    Attributes:
        calls: the call of each direction of a layer.
        heads: of each direction of a layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers; 0 outside of training.
        initial_values: of each state, where the caller gives no states.
        order: the caller's word for whether layers run at the same time.
        joint: whether both directions of a layer are one call.
        form: how the caller's parameters hold the weights of the layers.
        ragged: which tensors say how rows take steps; None where all rows run all steps.
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
    ragged: RaggedKind | None = None

    def flat_weights(self, parameters: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Return what a single step reads of the caller's parameters: see `Form.of_step`."""
        return self.form.of_step(parameters, self.parts)

    @property
    def tf32(self) -> bool:
        """True if products may round factors of float32 to TF32."""
        return self.calls[0].tf32

    @property
    def at_once(self) -> bool:
        """True if layers may run at the same time.

        Such layers have one direction, forwards, rows that run all steps, and a cell without an
        `Input`.
        """
        forwards = len(self.calls) == 1 and not self.calls[0].choice.reverse
        return self.layers > 1 and forwards and self.ragged is None and not self.inputs

    @property
    def inputs(self) -> int:
        """Number of the cell's inputs that no weight multiplies."""
        return len(self.calls[0].cell.inputs)

    def named(
        self, given: int, flat: Sequence[Any]
    ) -> tuple[Sequence[Any], Ragged | None, Sequence[Any], Sequence[Any]]:
        """Return the caller's states, rows and inputs, and what follows them in a flat sequence.

        `given` says how many states there are: none, or all. Rows are None where all run all steps.
        """
        rows = given + (self.ragged.tensors if self.ragged else 0)
        end = rows + self.inputs
        ragged = self.ragged.named(flat[given:rows]) if self.ragged else None
        return flat[:given], ragged, flat[rows:end], flat[end:]

    def asked(
        self,
        weights: Sequence[LayerWeights],
        first: Sequence[Sequence[Tensor]],
        drawn: Sequence[Tensor] = (),
    ) -> LayersCall:
        """Return the call of layers of one direction of time; arguments are as in `LayersCall`."""
        kind = self.calls[0], self.order, self.heads, self.dim, self.dropout
        return LayersCall(*kind, weights, first, drawn)

    @property
    def by_head(self) -> bool:
        """True if gradients of weights lie head by head, as the parameters do."""
        joined = self.calls[0].choice.reverse == "half"
        return joined or (self.heads > 1 and isinstance(self.form, RowsForm))

    @property
    def reverses(self) -> tuple[bool, ...]:
        """Directions of a layer: True for each that runs from the last step to the first."""
        return tuple([call.choice.reverse is True for call in self.calls])

    def masks(self, ragged: Ragged | None, made: MadeMasks | None, index: int) -> Masks | None:
        """Return the masks of a direction of a layer; None where all rows run all steps.

        `index` is the number of the direction, among those of all layers.
        """
        if ragged is None or made is None:
            return None
        values, direction = ragged.reset_to, index % len(self.calls)
        own = None if values is None else [value[index] for value in values]
        return made.of(direction, own, (self.heads, self.dim), self.calls[direction].choice.reverse)

    @property
    def zero(self) -> tuple[bool, ...]:
        """States: True for each that is zero before the first step where the caller gives none."""
        return tuple([value == 0 for value in self.initial_values])

    @property
    def parts(self) -> int:
        """Number of directions of all layers."""
        return self.layers * len(self.calls)

    @property
    def runs(self) -> int:
        """Number of calls of all layers."""
        return self.layers if self.joint else self.parts

    @property
    def scale(self) -> float:
        """Factor by which dropout multiplies the features that it keeps."""
        return 1 / (1 - self.dropout) if self.dropout < 1 else 0.0

    @property
    def features(self) -> int:
        """Number of features of the output of a layer."""
        return len(self.calls) * self.heads * self.dim
