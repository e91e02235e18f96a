"""Schemas of the operators of all layers of a module, and the meaning of their arguments.

Files of `torch.export` hold these schemas, so an argument may be added at the end, with a default,
and none may change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from torch import Tensor

from ....codegen.shape import Precision, Save
from ...call.call import Choice, Order, cell_of
from ...call.forms import OWN, Form
from ...call.layers import LayerWeights
from ...call.rows_form import rows_form
from ...call.settings import Settings, made_joint, stack_of
from ...call.stack import Stack
from ...targets.registry import target_of
from ..stack.forward import Run

_OPTIONS = (
    "str cell, bool[] given, int layers, bool both, int heads, int dim, float dropout,"
    " str variant, str save, str? precision, str order, bool joint=False, bool rows=False"
)
RNN = (
    "rnn(Tensor x, Tensor[] states, Tensor[] weights, Tensor? masks, bool keep,"
    f" {_OPTIONS}) -> Tensor[]"
)
RNN_BACKWARD = (
    "rnn_backward(Tensor? d_y, Tensor?[] d_last, Tensor x, Tensor[] states, Tensor[] weights,"
    f" Tensor? masks, Tensor[] results, bool[] needs, {_OPTIONS}) -> Tensor[]"
)


class Options(NamedTuple):
    """Call of a module, besides its tensors: the last arguments of its operators.

    Others than these are as in `Settings`, or as in `Choice`.

    Attributes:
        cell: as JSON.
        given: which of `LayerWeights.flat` each direction of each layer has, one after the other.
        dropout: 0 outside of training.
        joint: whether both directions of a layer are one call.
        rows: whether weights are rows in the order head, gate, unit, as those of a module, or gate
            by gate, as in `LayerWeights`.
    """

    cell: str
    given: Sequence[bool]
    layers: int
    both: bool
    heads: int
    dim: int
    dropout: float
    variant: str
    save: str
    precision: str | None
    order: str
    joint: bool = False
    rows: bool = False

    @property
    def passed(self) -> tuple[Any, ...]:
        """Options without the last ones that are defaults, which torch leaves out of a call."""
        return self[: len(self) - (0 if self.rows else 1 if self.joint else 2)]

    @property
    def form(self) -> Form:
        """Form in which the weights are given."""
        return rows_form(self.heads, self.dim) if self.rows else OWN

    @property
    def directions(self) -> int:
        """Number of directions of a layer."""
        return 2 if self.both else 1

    @property
    def parts(self) -> int:
        """Number of directions of all layers."""
        return self.layers * self.directions

    @property
    def states(self) -> int:
        """Number of states of the cell."""
        return len(cell_of(self.cell).states)

    @property
    def choice(self) -> Choice:
        """Choice of the caller; `call_of` refuses a variant that does not exist."""
        return Choice(self.variant, cast(Save, self.save), cast(Precision, self.precision))

    def stack(self, x: Tensor, keep: bool) -> Stack:
        """Return the call; `keep` says that a backward may follow.

        x gives the type of device, and the dtype that decides whether products round to TF32.
        """
        device = x.device
        tf32 = target_of(device).rounds(x.dtype, self.choice.precision)
        return _stack(*self._replace(given=()), device.type, keep, tf32)

    def weights(self, present: Sequence[Tensor]) -> list[LayerWeights]:
        """Return the weights by name, from those that there are."""
        return self.form.weights(list(self.spread(present, None)), self.parts)

    def spread(self, present: Sequence[Any], missing: Any) -> Iterator[Any]:
        """Return a value for each of the weights in `given`: one of `present`, or `missing`."""
        found = iter(present)
        return (next(found) if given else missing for given in self.given)


@lru_cache(maxsize=1024)
def _stack(*arguments: Any) -> Stack:
    """Return the call of `Options` without `given`, of a type of device, `keep` and `tf32`."""
    *fields, device, keep, tf32 = arguments
    options = Options(*fields)
    cell, _, layers, both, heads, dim, dropout, *_ = options
    sizes, order = (layers, both, heads, dim), cast(Order, options.order)
    settings = Settings(cell_of(cell), *sizes, dropout, "auto", options.choice, order, options.form)
    stack = stack_of(settings, device, keep, dropout, tf32)
    return made_joint(stack) if options.joint else stack


class Inputs(NamedTuple):
    """Tensors of a forward.

    Attributes:
        x: (T, B, input).
        states: before the first step, (layers * directions, B, hidden) each; or none.
        weights: those that there are.
        masks: of each dropout, (layers - 1, T, B, features); None for none.
    """

    x: Tensor
    states: Sequence[Tensor]
    weights: Sequence[Tensor]
    masks: Tensor | None

    def present(self) -> list[Tensor]:
        """Return those that there are."""
        found = [self.x, *self.states, *self.weights]
        return found if self.masks is None else [*found, self.masks]


def kind_of(stack: Stack, options: Options, inputs: Inputs) -> Hashable:
    """Return what a call is besides the values of its tensors."""
    x, states, weights, masks = inputs
    wanted = tuple([tensor.requires_grad for tensor in (x, *states, *weights)])
    kind = x.shape, x.dtype, x.device, len(states), masks is None
    return stack, tuple(options.given), wanted, kind


def to_results(stack: Stack, run: Run) -> list[Tensor]:
    """Return the results of `rnnc::rnn`: the output, the last states, and what a backward reads.

    No two of them share memory. The output of the last layer is that of the call, unless its two
    directions are joined.
    """
    last = [state.contiguous() for state in run.last]
    if not stack.calls[0].for_backward:
        return [run.y, *last]
    kept = [tensor for result in run.results for tensor in (*result.states, result.saved)]
    if stack.runs == stack.layers:
        del kept[-1 - len(last)]
    return [run.y, *last, *kept]


def to_parts(stack: Stack, results: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    """Return, of each call of a layer, its states at all steps and what its kernel saved.

    `results` are those of `rnnc::rnn` without the last states.
    """
    y, *kept = results
    each = len(stack.initial_values) + 1
    if stack.runs == stack.layers:
        steps, batch, _ = y.shape
        kept.insert(len(kept) + 1 - each, y.view(steps, batch, -1, stack.dim))
    return [kept[first : first + each] for first in range(0, len(kept), each)]
