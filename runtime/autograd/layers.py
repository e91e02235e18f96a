"""All layers of a module as one node of autograd: input products, kernels and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call import Call
from ..check.plain import all_plain, is_watched, profiler_enabled
from ..targets import TARGETS
from ..tensors import Forward, Saved, ScanInputs, States
from .check_saved import check_as_left, plain_gradients
from .function import Likeness, spent_error
from .transforms import check_gradients, check_has_operators


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


# The same computation by torch operations that autograd can differentiate again: output and last
# states from x, initial states, weights, and the mask of each dropout.
Composed = Callable[
    [Tensor, Sequence[Tensor], Sequence[LayerWeights], Sequence[Tensor]], tuple[Tensor, States]
]


class _Run(NamedTuple):
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
    with _profiled("rnnc::scan"):
        run = _forward(stack, x, states, weights)
    return run.y, run.last


def _forward(
    stack: Stack, x: Tensor, states: Sequence[Tensor], weights: Sequence[LayerWeights]
) -> _Run:
    target = TARGETS[stack.call.target]
    steps, batch, _ = x.shape
    results: list[Forward] = []
    masks: list[Tensor] = []
    firsts = list(stack.initial_states(x, batch, states))
    for layer, (own, first) in enumerate(zip(weights, firsts, strict=True)):
        if layer and stack.dropout:
            x, mask = torch.native_dropout(x, stack.dropout, True)
            masks.append(mask)
        inputs = ScanInputs(_wx(stack, x, own.W), own.R, own.b, first, own.R_diag, own.params)
        # The buffer of the input's share was made here, and becomes that of the saved gates.
        results.append(target.forward(stack.call, inputs, donated=own.W is not None))
        x = results[-1].states[0].view(steps, batch, stack.heads * stack.dim)
    lasts = zip(*(result.last for result in results), strict=True)
    return _Run(x, tuple([_stacked(stack, each) for each in lasts]), results, masks, firsts)


def _wx(stack: Stack, x: Tensor, weight: Tensor | None) -> Tensor:
    """The input's contribution to the gates, in the layout of the input's device."""
    if weight is None:  # a cell that takes no input still runs for as many steps
        return x.new_empty(x.shape[1], x.shape[0], stack.heads, stack.dim, 0)
    call = stack.call
    return TARGETS[call.target].project_at(x, weight, call.tf32)


def _stacked(stack: Stack, of_layers: Sequence[Tensor]) -> Tensor:
    """(layers, B, hidden) from a (B, N, D) per layer."""
    batch, heads, dim = of_layers[0].shape
    if stack.layers == 1:
        return of_layers[0].view(1, batch, heads * dim)
    return torch.stack(list(of_layers)).view(stack.layers, batch, heads * dim)


class Layers(torch.autograd.Function):
    """All layers of a module, with the gradients of input, states and weights."""

    @staticmethod
    def forward(
        ctx: Any, stack: Stack, composed: Composed, given: int, x: Tensor, *flat: Tensor | None
    ) -> tuple[Tensor, ...]:
        """The output and the last states.

        Args:
            ctx: of the node.
            stack: the call.
            composed: computes the same by torch operations.
            given: how many states the caller gives: none, or all.
            x: (T, B, input).
            flat: the caller's states, and the flat weights of each layer.
        """
        states: Any = flat[:given]
        with _profiled("rnnc::scan"):
            run = _forward(stack, x, states, weights_from(flat[given:], stack.layers))
        saved = (
            x,
            *flat,
            *run.masks,
            *(t for result in run.results for t in (*result.states, result.saved)),
        )
        ctx.stack, ctx.composed, ctx.given, ctx.spent = stack, composed, given, False
        ctx.inputs, ctx.device = 1 + len(flat), x.device
        ctx.constants = None if given else run.first  # those of the caller may change
        ctx.kinds = [None if t is None else (t.shape, t.dtype) for t in saved]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        # A view of a tensor that was made here could not be changed in place.
        return run.y.detach(), *(last.detach() for last in run.last)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """The gradient of each input that needs one."""
        if ctx.spent:
            raise spent_error()
        saved = ctx.saved_tensors
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_watched():
            check_has_operators(ctx.stack.call.target)
            check_gradients(gradients)
            return None, None, None, *_differentiable(ctx, saved, gradients)
        if not all_plain(gradients):
            check_gradients(gradients)
            gradients = tuple(plain_gradients(gradients))
        # A caller's backward inside autocast: the forward has decided what products compute in.
        with _profiled("rnnc::scan_backward"), _without_autocast(ctx.device.type):
            return None, None, None, *_backward(ctx, _checked(ctx, saved), gradients)


class _Tensors(NamedTuple):
    """What a backward reads, as the forward saved it.

    Attributes:
        x: the input.
        states: the caller's.
        weights: of each layer.
        masks: of each dropout.
        results: of each layer: its states at all steps, and what its kernel saved.
    """

    x: Tensor
    states: Sequence[Tensor]
    weights: list[LayerWeights]
    masks: Sequence[Tensor]
    results: list[Sequence[Tensor]]


def _named(ctx: Any, saved: Sequence[Any]) -> _Tensors:
    """The saved tensors by name."""
    stack: Stack = ctx.stack
    x, states, weights = saved[0], saved[1 : 1 + ctx.given], saved[1 + ctx.given : ctx.inputs]
    dropped = stack.layers - 1 if stack.dropout else 0
    results = saved[ctx.inputs + dropped :]
    count = len(results) // stack.layers
    return _Tensors(
        x,
        states,
        weights_from(weights, stack.layers),
        saved[ctx.inputs : ctx.inputs + dropped],
        [results[first : first + count] for first in range(0, len(results), count)],
    )


def _checked(ctx: Any, saved: Sequence[Any]) -> _Tensors:
    """The saved tensors as kernels can read them.

    Raises:
        TensorError: a hook on saved tensors gave back another shape, dtype or device.
    """
    likeness = Likeness((ctx.stack, ctx.given, *ctx.kinds[0], ctx.device), saved)
    if not likeness.seen():
        found = [
            None
            if kind is None
            else check_as_left(f"saved tensor {i}", tensor, kind[0], kind[1], ctx.device)
            for i, (tensor, kind) in enumerate(zip(saved, ctx.kinds, strict=True))
        ]
        if all(new is old for new, old in zip(found, saved, strict=True)):
            likeness.remember()
        saved = found
    return _named(ctx, saved)


def _backward(ctx: Any, saved: _Tensors, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The gradients of x, the caller's states and the weights, from the last layer to the first."""
    stack: Stack = ctx.stack
    x, states, weights, masks, results = saved
    target = TARGETS[stack.call.target]
    steps, batch, _ = x.shape
    plane = (batch, stack.heads, stack.dim)
    hidden = stack.heads * stack.dim
    keep = 1 / (1 - stack.dropout) if stack.dropout < 1 else 0.0
    needs = ctx.needs_input_grad[3:]
    count = len(weights[0].flat())
    firsts = ctx.constants or list(stack.initial_states(x, batch, states))
    again = target.computes_gates_again(stack.call.choice.save)
    kept_graph = torch._C._autograd._get_current_graph_task_keep_graph()
    d_y, *d_lasts = gradients
    d_weights: list[Tensor | None] = []
    d_firsts: list[Sequence[Tensor]] = []
    for layer in range(stack.layers - 1, -1, -1):
        own, (*sequences, kept) = weights[layer], results[layer]
        below = x
        if layer:
            below = results[layer - 1][0].view(steps, batch, hidden)
            if masks:
                below = torch.ops.aten.native_dropout_backward(below, masks[layer - 1], keep)
        wx = _wx(stack, below, own.W) if again else None
        d_states = [
            None if d_y is None else d_y.view(steps, *plane),
            *[None] * (len(sequences) - 1),
        ]
        d_last = [None if d is None else d[layer].view(plane) for d in d_lasts]
        donated = not (kept_graph or kept.is_inference())
        before = kept._version if donated else 0
        read = Saved(
            wx,
            own.R,
            own.b if again else None,
            firsts[layer],
            own.R_diag,
            own.params,
            sequences,
            kept,
        )
        try:
            found = target.backward(stack.call, read, d_states, d_last, donated)
        except BaseException:
            ctx.spent = ctx.spent or (donated and kept._version != before)
            raise
        ctx.spent = ctx.spent or donated
        first = 1 + ctx.given + layer * count
        d_y, d_W = None, None
        if own.W is not None:
            wanted = bool(layer) or needs[0], needs[first]
            d_y, d_W = target.project_gradients(found.d_wx, below, own.W, wanted, stack.call.tf32)
        elif layer or needs[0]:
            d_y = torch.zeros_like(below)
        if layer and masks and d_y is not None:
            d_y = torch.ops.aten.native_dropout_backward(d_y, masks[layer - 1], keep)
        given = found.given(read, own.b is not None)
        d_weights[:0] = [d_W, given.R, given.b, given.R_diag, *given.params]
        d_firsts.insert(0, found.d_initial_states)
    ctx.spent = False
    d_states = [_stacked(stack, each) for each in zip(*d_firsts, strict=True)] if ctx.given else []
    return [d_y, *d_states, *d_weights]


def _differentiable(
    ctx: Any, saved: Sequence[Any], gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The same gradients by operations that a tracer sees, and that autograd can differentiate."""
    named, inputs = _named(ctx, saved), saved[: ctx.inputs]
    needs = ctx.needs_input_grad[3:]
    with torch.enable_grad():
        y, last = ctx.composed(named.x, named.states, named.weights, named.masks)
    pairs = [(o, g) for o, g in zip((y, *last), gradients, strict=True) if g is not None]
    wanted = [t for t, need in zip(inputs, needs, strict=True) if need]
    found = iter(
        torch.autograd.grad(
            [o for o, _ in pairs],
            wanted,
            [g for _, g in pairs],
            create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )
    )
    return [next(found) if need else None for need in needs]


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def _profiled(name: str) -> AbstractContextManager[Any]:
    """A span in torch's profiler, where one runs."""
    return torch.profiler.record_function(name) if profiler_enabled() else nullcontext()
