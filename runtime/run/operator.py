"""Calls by one operator of torch: plain values and torch operations that a compiler traces."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...codegen.cuda.kinds import variants
from ...codegen.shape import SAVES, Precision
from ..call.call import Tensors
from ..call.forms import OWN
from ..call.layer_call import Choice, check_words
from ..call.marks import constant_in_graphs
from ..call.plain import is_mapped, kernels_follow, may_need_gradient, without_autocast
from ..call.ragged import RaggedKind
from ..call.settings import (
    OUTPUT,
    Asked,
    CallText,
    Settings,
    constants_of,
    one_direction,
    settings_of_constants,
    text_in_graph,
    write_call,
)
from ..call.tensors import States, inputs_at
from ..grad.functional import run_functional
from ..grad.operators.call import call_op
from ..targets.registry import TARGETS
from .by_layer import run_by_layer


def run_operator(
    settings: Settings, name: str, tensors: Tensors, asked: Asked, keep: bool
) -> tuple[list[Tensor], States]:
    """Run a call by the operator `rnnc::call`, in the dtype of its tensors.

    The masks of dropout are drawn here: a compiler draws its own random numbers. Arguments are as
    in `ready_call`.
    """
    x, states, weights, ragged, unweighted, _ = tensors
    compiling, exported = torch.compiler.is_compiling(), _is_exported()
    followed = not compiling and kernels_follow()
    layers, heads, dim = settings.layers, settings.heads, settings.dim
    directions, constants = len(settings.choices), constants_of(settings) if compiling else ()
    precision, may_join = settings.choice.precision, None
    wanted = tuple([may_need_gradient(given) for given in unweighted])
    if not compiling:
        settings = settings.with_gradients(wanted)
    if ragged is not None:
        lengths = ragged.lengths
        if lengths is not None:
            lengths = lengths.to(x.device, torch.int64, non_blocking=True)
        values = ragged.reset_to
        if values is not None:  # what is stored for each step gets no gradient
            values = [value.detach() if value.ndim == 4 else value for value in values]
        tensors = tensors._replace(ragged=ragged._replace(lengths=lengths, reset_to=values))
    if followed:  # the views of weights are operations of torch, which it transforms
        weights = settings.form.flat(weights, layers * directions)
        settings, tensors = settings._replace(form=OWN), tensors._replace(weights=weights)
        mapped = any(weight is not None and is_mapped(weight) for weight in weights)
        if mapped and not asked.takes_wx:
            with without_autocast(x.device.type):
                return _run_by_layer(settings, name, tensors, asked, keep)
    if len(states) == 0 and exported:
        # torch's library for graphs compiled ahead of time hands on an empty list as None.
        outer = (x.shape[0], heads, dim)
        if not asked.takes_wx:
            outer = (layers * directions, x.shape[1], heads * dim)
        given = [x.new_full(outer, state.init) for state in settings.cell.states]
        tensors = tensors._replace(states=given)
    if settings.dropout and layers > 1:
        # What is drawn depends on the sizes alone.
        like = x.new_empty(*x.shape[:-1], directions * heads * dim)
        count = layers - 1
        drawn = [torch.native_dropout(like, settings.dropout, True)[1] for _ in range(count)]
        tensors = tensors._replace(drawn=torch.stack(drawn))
    if compiling and not exported:
        # A constant of the graph: the compiler guards the flag, and traces again where it changes.
        # So the backward does what its forward did, also where CUDA replays both.
        rounds = TARGETS[name].rounds(x.dtype, precision)
        precision = "tf32" if rounds else "ieee"
        if settings.may_join and not asked.takes_wx and _is_static(x.shape[1]):
            # Under a batch of any size, each direction is a call of its own.
            may_join = name, x.dtype, x.device, x.shape[1]
    present = tuple([weight is not None for weight in weights])
    kind, more = None if ragged is None else ragged.kind, tensors.drawn is not None
    others = len(tensors.states) > 0, asked.takes_wx, asked.all_states, False, more
    if compiling:
        rows = None if kind is None else tuple(kind)
        text = _text(constants, precision, keep, (rows, *others), present, wanted, may_join)
        if not text:  # words that a module got since it was made: no fake tensor says it
            check_words(settings.choice)
    else:
        text = write_call(CallText(settings, keep, Asked(kind, *others), present))
    flat = [tensor for tensor in tensors.flat() if tensor is not None]
    results = run_functional(flat, text) if followed else call_op(flat, text)
    states_of_cell = len(settings.cell.states)
    sequences = states_of_cell if asked.all_states else 1
    return results[:sequences], tuple(results[sequences : sequences + states_of_cell])


def _run_by_layer(
    settings: Settings, name: str, tensors: Tensors, asked: Asked, keep: bool
) -> tuple[list[Tensor], States]:
    """Run each direction of each layer by the operator; arguments are as in `run_operator`."""

    def scan(
        choice: Choice, index: int, wx: Tensor, first: States, weights: tuple[Any, ...]
    ) -> tuple[States, States]:
        *own, params = weights
        ragged, inputs = tensors.ragged, inputs_at(tensors.unweighted, index)
        if ragged is not None and ragged.reset_to is not None:
            values = [value[index : index + 1] for value in ragged.reset_to]
            ragged = ragged._replace(reset_to=values)
        given = first if len(tensors.states) else ()
        of_one = Tensors(wx, given, (None, *own, *params), ragged, inputs)
        last = index // len(settings.choices) == settings.layers - 1
        more = asked._replace(takes_wx=True, all_states=asked.all_states and last)
        one = one_direction(settings, settings.cell, choice)
        over_time, after = run_operator(one, name, of_one, more, keep)
        return tuple([state.transpose(0, 1) for state in over_time]), after

    return run_by_layer(settings, tensors, asked, scan)


@constant_in_graphs
def _text(
    constants: tuple[Any, ...],
    precision: Precision,
    keep: bool,
    wanted: tuple[Any, ...],
    present: tuple[bool, ...],
    gradients: tuple[bool, ...],
    may_join: tuple[str, torch.dtype, torch.device, int] | None,
) -> str:
    """Return the text of a call, from the constants of its settings and the fields of `Asked`.

    `gradients` is as in `Settings.with_gradients`. The target, dtype, device and rows of a call
    whose directions `may_join` say whether one call of both is better. The text is empty if there
    is no such variant, or nothing like it to save.
    """
    settings, asked = settings_of_constants(constants), Asked(*wanted)
    settings = settings._replace(choice=settings.choice._replace(precision=precision))
    if settings.choice.variant not in variants() or settings.choice.save not in SAVES:
        return ""
    if may_join is not None:
        name, dtype, device, batch = may_join
        target, like = TARGETS[name], torch.empty(0, dtype=dtype, device=device)
        tf32 = target.rounds(dtype, precision)
        one = CallText(settings, keep, OUTPUT, ()).call(device.type, tf32).directions[0]
        joint = target.joins(one, like, batch, settings.heads, settings.dim)
        asked = asked._replace(joint=joint)
    if torch.compiler.is_exporting():  # who runs the graph may pass tensors that need one
        own = zip(gradients, settings.cell.inputs, strict=True)
        gradients = tuple([want or given.draw is None for want, given in own])
    settings = settings.with_gradients(gradients)
    if asked.ragged is not None:
        asked = asked._replace(ragged=RaggedKind(*asked.ragged))
    return text_in_graph(write_call(CallText(settings, keep, asked, present)))


@constant_in_graphs
def _is_exported() -> bool:
    """Return True if `torch.export` traces, as `torch.compile` claims to do before torch 2.13."""
    return torch.compiler.is_exporting()


def _is_static(size: int) -> bool:
    """Return True if a graph holds for this size alone."""
    # Imports sympy, which takes half a second, and which whatever traces has imported.
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return has_static_value(size)
