"""Checks of the tensors of the operators, whose kernels read them by their address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....errors import TensorError
from ...call.call import Call, Tensors
from ...call.forms import RowsForm
from ...call.layer_call import backward_reads
from ...call.plain import check_memory
from ...call.settings import CallText
from ...call.tensors import ScanInputs, SomeTensors, inputs_at
from ...check.module import check_states
from ...check.scan import check_operator
from ...check.tensor import check_like, shape_error
from ...targets.registry import TARGETS, check_takes
from ..check_saved import check_as_left, plain_gradients
from ..compute import forgets_wx
from ..layers.given import states_for
from ..layers.rows import sizes_of
from .results import runs_of, shapes_of_results


def check_forward(call: Call, written: CallText, tensors: Sequence[Tensor]) -> None:
    """Raise a `TensorError` for a tensor of a forward that is missing or does not fit."""
    _check_count(call, written, tensors)
    named = call.named(written.spread(tensors, None))
    x, axes = named.x, 5 if call.takes_wx else 2 if _packed(call) else 3
    if x.ndim != axes:
        wanted = ("(total, input)", "(T, B, input)", "", "(B, T, N, D, Gx)")[axes - 2]
        raise shape_error("x", x, wanted, "x of that shape")
    check_memory("x", x)
    _check_rows(call, named)
    _check_weights(call, named)
    steps, batch = sizes_of(call, x, named.ragged)
    dropped, count = (steps, batch, call.features), call.layers - 1 if call.dropout else 0
    if call.drawn != bool(count):
        raise TensorError("masks", f"drawn: {call.drawn}", f"{count}", "a mask for each dropout")
    if named.drawn is not None:
        check_as_left("masks", named.drawn, (count, *dropped), torch.bool, x.device)


def check_results(
    call: Call, written: CallText, tensors: Sequence[Any], results: Sequence[Tensor]
) -> None:
    """Check the tensors of a backward: those of the call, and the results of its forward."""
    if not results:
        raise TensorError("results", "none", "those of rnnc::call", "what rnnc::call gave")
    if forgets_wx(call):
        steps, batch, *plane = results[0].shape
        cell = written.settings.cell
        wx = results[0].new_empty(()).expand(batch, steps, *plane, len(cell.input_gates))
        tensors = (wx, *tensors)
    check_forward(call, written, tensors)
    named, runs = call.named(written.spread(tensors, None)), runs_of(call, results)
    count, each = len(call.initial_values), {len(run) for run in runs}
    if len(runs) != call.runs or each != {count + 1}:
        found, wanted = f"{len(results)} of them", f"those of {call.runs} runs"
        raise TensorError("results", found, wanted, "what rnnc::call gave")
    x, spec, save = named.x, call.directions[0].cell, written.settings.choice.save
    steps, batch = sizes_of(call, x, named.ragged)
    rows = batch, call.heads * call.parts // call.runs, call.dim
    kept = TARGETS[call.target].saved_shape(spec, (steps, *rows), save)
    kind = x.dtype, x.device
    for run in runs:
        for state, own, read in zip(spec.states, run, backward_reads(spec), strict=False):
            # A state that the backward does not read may be empty.
            length = steps if read or own.shape[:1] != (0,) else 0
            check_as_left(f"states[{state.name}]", own, (length, *rows), *kind)
        check_as_left("kept", run[-1], kept, *kind)


def check_gradients_of_results(
    call: Call, results: Sequence[Tensor], gradients: SomeTensors
) -> list[Tensor | None]:
    """Return the gradients of `results` of a call, as kernels can read them."""
    # The dispatcher resolves negative bits in tensors and lists of them, not in lists with None.
    plain, first = plain_gradients(gradients), results[0]
    shapes = shapes_of_results(call, results)
    if len(gradients) != len(shapes):
        found, wanted = f"{len(gradients)} of them", f"{len(shapes)}, one for each result"
        raise TensorError("gradients", found, wanted, "None for a gradient that is zero")
    for i, (gradient, shape) in enumerate(zip(plain, shapes, strict=True)):
        if gradient is not None:
            check_as_left(f"gradient {i}", gradient, shape, first.dtype, first.device)
    return plain


def _packed(call: Call) -> bool:
    return call.ragged is not None and call.ragged.packed


def _check_count(call: Call, written: CallText, tensors: Sequence[Any]) -> None:
    """Refuse another number of tensors than the call has, or of weights than the cell has."""
    rows = call.ragged.tensors if call.ragged else 0
    others = 1 + call.states + rows + call.inputs + call.drawn
    wanted = others + sum(written.present)
    if len(tensors) != wanted:
        found, write = f"{len(tensors)} of them", "those of the call, as rnnc.RNN passes them"
        raise TensorError("tensors of rnnc::call", found, f"{wanted}", write)
    cell, own = call.directions[0].cell, isinstance(call.form, RowsForm)
    each = 4 + len(cell.params)
    if len(written.present) != call.parts * each:
        found = f"{len(written.present)} weights"
        wanted_weights = f"{call.parts * each}: of each direction of each layer {each}"
        write = "for each of W, R, b, R_diag and each param whether it is there"
        raise TensorError("present of rnnc::call", found, wanted_weights, write)
    units = call.heads * call.dim
    if not own:
        return
    ranks = ((2, 2, 1, 1) + (0,) * len(cell.params)) * call.parts
    weights = tensors[others - call.drawn : len(tensors) - call.drawn]
    there = [rank for rank, given in zip(ranks, written.present, strict=True) if given]
    for number, (weight, rank) in enumerate(zip(weights, there, strict=True)):
        if rank and (weight.ndim != rank or weight.shape[0] % units):
            shape = f"rows of {units} units" + (", (rows, features)" if rank == 2 else "")
            raise shape_error(f"weight {number}", weight, shape, "rnnc.RNN, which calls this")


def _check_rows(call: Call, tensors: Tensors) -> None:
    """Check lengths, resets and the cell's inputs."""
    target, x, ragged = TARGETS[call.target], tensors.x, tensors.ragged
    check_takes(target, x.device.type, tensors)
    if ragged is None:
        return
    steps, batch = sizes_of(call, x, ragged)
    if ragged.lengths is not None:
        check_as_left("lengths", ragged.lengths, (batch,), torch.int64, x.device)
    if ragged.reset is not None:
        check_as_left("reset", ragged.reset, (steps, batch), torch.bool, x.device)
    if ragged.starts is not None:
        check_as_left("starts", ragged.starts, (steps + 1,), torch.int64, x.device)
    hidden = call.heads * call.dim
    outer: tuple[tuple[int, ...], ...] = ((), (batch,), (steps, batch))
    for value in ragged.reset_to or ():
        shapes = [(call.parts, *each, hidden) for each in outer]
        shape = tuple(value.shape)
        own = shape if shape in shapes else shapes[0]
        check_as_left("reset_to", value, own, x.dtype, x.device)


def _check_weights(call: Call, tensors: Tensors) -> None:
    """Check states and weights of each direction of each layer, and the cell's inputs."""
    x, states, cell = tensors.x, tensors.states, call.directions[0].cell
    steps, batch = sizes_of(call, x, tensors.ragged)
    if states and not call.takes_wx:
        rows = (call.parts, batch, call.heads * call.dim)
        names = [state.name for state in cell.states]
        check_states(states, names, [rows] * len(names), "(layers * directions, B, hidden)", x)
    named, gates = call.form.weights(tensors.weights, call.parts), len(cell.input_gates)
    firsts, like = list(states_for(call, x, batch, states)), x.new_zeros(())
    for i, (own, first) in enumerate(zip(named, firsts, strict=True)):
        wx = x if call.takes_wx else like.expand(batch, steps, call.heads, call.dim, gates)
        inputs = inputs_at(tensors.unweighted, i)
        given = own.R, own.b, first, own.R_diag, own.params, None, inputs
        check_operator(cell, ScanInputs(wx, *given))
        features = x.shape[-1] if i < len(call.directions) else call.features
        wanted = (gates, call.heads, call.dim, features)
        if gates and not call.takes_wx:
            check_like(f"W of {i}", own.W, wanted, "(Gx, N, D, input)", "x", x)
            check_memory(f"W of {i}", own.W) if own.W is not None else None
