"""Kernels as operators of torch: forward and backward, for autograd, autocast and compile.

They dispatch on the device of their tensors. A cell travels as its JSON, so that a graph that holds
the operator is complete in itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from ...codegen.layout import layout_of
from ...codegen.shape import Precision, Save
from ..call.call import Choice, call_of, cell_of, stored_states
from ..call.plain import is_watched, treats_itself
from ..call.tensors import Forward, forward_from, saved_from, saved_of
from ..check.masks import check_masks_of_operator
from ..check.scan import check_operator
from ..errors import BackwardError, SecondOrderError
from ..targets.refusals import check_takes_inputs, check_takes_masks
from ..targets.registry import target_of
from . import schemas
from .check_saved import Sizes, check_saved, check_seeds, plain_gradients, sizes_of
from .function import run_backward
from .transforms import OPERATOR_TARGETS, check_gradients


def _choice(variant: str, save: str, precision: str | None, reverse: bool) -> Choice:
    """Return a choice from an operator's arguments; `call_of` refuses unknown variants."""
    return Choice(variant, cast(Save, save), cast(Precision, precision), reverse)


@torch.library.custom_op(
    "rnnc::scan", mutates_args=(), device_types=OPERATOR_TARGETS, schema=schemas.SCAN
)
def scan_op(*arguments: Any) -> list[Tensor]:
    """Return the states at all steps (T, B, N, D), the last (B, N, D), and what the backward needs.

    A state that neither `over_time` nor, with `keep`, the backward wants at all steps is empty
    there. `variant` and `save` choose among the kernels of a GPU.
    """
    inputs, (cell, keep, over_time, *others) = schemas.from_scan(arguments)
    spec = cell_of(cell)
    check_operator(spec, inputs, over_time)
    device, choice = inputs.wx.device, _choice(*others)
    target = target_of(device)
    tf32 = target.rounds(inputs.wx.dtype, choice.precision)
    masked = inputs.masks is not None
    if inputs.masks is not None:
        check_takes_masks(target, device.type)
        check_masks_of_operator(spec, inputs.masks, inputs.wx)
        inputs = replace(inputs, masks=inputs.masks.map(Tensor.resolve_neg))
    if inputs.unweighted:
        check_takes_inputs(target, device.type)
        inputs = replace(inputs, unweighted=[t.resolve_neg() for t in inputs.unweighted])
    call = call_of(cell, device.type, keep, tuple(over_time), choice, tf32, masked)
    return target.forward(call, inputs).flat()


@scan_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    inputs, (cell, keep, over_time, _, save, *_) = schemas.from_scan(arguments)
    wx = inputs.wx
    batch, steps, heads, dim, _ = wx.shape
    stored = stored_states(cell, over_time, keep)
    sizes = (steps, batch, heads, dim)
    saved = target_of(wx.device).saved_shape(cell_of(cell), sizes, keep, save)
    return Forward(
        [wx.new_empty(steps if wanted else 0, batch, heads, dim) for wanted in stored],
        [wx.new_empty(batch, heads, dim) for _ in stored],
        wx.new_empty(saved),
    ).flat()


@torch.library.custom_op(
    "rnnc::scan_backward",
    mutates_args=(),
    device_types=OPERATOR_TARGETS,
    schema=schemas.SCAN_BACKWARD,
)
def scan_backward_op(*arguments: Any) -> list[Tensor]:
    """Return d_wx (B, T, N, D, Gx), d_R, d_R_diag, d_b, d_params (P, N, D), d_initial per state.

    `wx` and `b` are given where the gates are computed again.
    """
    d_states, d_last, saved, (cell, *others) = schemas.from_scan_backward(arguments)
    spec, choice, sizes = cell_of(cell), _choice(*others), sizes_of(saved)
    target = target_of(sizes.device)
    saved = check_saved(target, spec, choice.save, sizes, saved)
    check_seeds(spec, sizes, d_states, d_last)
    # The dispatcher resolves negative bits in tensors and lists of them, not in lists with None.
    d_states, d_last = plain_gradients(d_states), plain_gradients(d_last)
    tf32 = target.rounds(sizes.dtype, choice.precision)
    masked = saved.masks is not None
    call = call_of(cell, sizes.device.type, True, None, choice, tf32, masked)
    return schemas.to_results(run_backward(call, saved, d_states, d_last))


@scan_backward_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    _, _, saved, (cell, *_) = schemas.from_scan_backward(arguments)
    spec = cell_of(cell)
    first = saved.initial_states[0]
    batch, heads, dim = first.shape
    steps = saved.saved.shape[0] if saved.wx is None else saved.wx.shape[1]
    new, plane = first.new_empty, (heads, dim)
    inputs, gates = len(spec.input_gates), len(layout_of(spec).gates)
    d_wx = target_of(first.device).new_d_wx(first, (batch, steps, *plane, inputs), gates)
    return [
        d_wx,
        new(len(spec.dense_pairs), *plane, dim),
        new(len(spec.diagonal_pairs), *plane),
        new(len(spec.bias_gates), *plane),
        new(len(spec.params), *plane),
        *(new(batch, *plane) for _ in saved.initial_states),
        *(new(steps, batch, *plane).transpose(0, 1) for _ in spec.inputs),
        *(new(batch, *plane) for _ in spec.states if saved.masks and saved.masks.learned),
    ]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    tensors, (ctx.cell, keep, _, *choice) = schemas.from_scan(inputs)
    ctx.choice = _choice(*choice)
    if not keep:
        raise BackwardError(
            "a backward through rnnc::scan",
            "rnnc::scan was called with keep=False on tensors that need gradients",
            "keep=True, or a call without gradients",
            "keep=True, or torch.no_grad() around the call",
        )
    wx = tensors.wx
    ctx.given = schemas.count_given(inputs)  # torch wants no gradient for the others
    ctx.count, ctx.has_bias = len(tensors.initial_states), tensors.b is not None
    ctx.masked = tensors.masks is not None
    ctx.set_materialize_grads(False)
    target = target_of(wx.device)
    if not torch.compiler.is_compiling():  # torch's flags may change before the backward
        rounds = target.rounds(wx.dtype, ctx.choice.precision)
        ctx.choice = ctx.choice._replace(precision="tf32" if rounds else "ieee")
    again = target.computes_gates_again(ctx.choice.save)
    flat = saved_of(tensors, forward_from(output), again).flat()
    batch, steps, heads, dim, _ = wx.shape
    own = is_watched() or any(t is not None and treats_itself(t) for t in flat)
    # A tracer, or the type of a tensor that treats operators itself, answers for its own tensors.
    ctx.sizes = None if own else Sizes(steps, batch, heads, dim, wx.dtype, wx.device)
    ctx.save_for_backward(*flat)


def _backward(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    count = ctx.count
    unweighted = len(cell_of(ctx.cell).inputs)
    saved = saved_from(ctx.saved_tensors, count, ctx.masked, unweighted)
    if not torch.compiler.is_compiling():
        check_gradients(gradients)
        if ctx.sizes is not None and not is_watched():
            target = target_of(ctx.sizes.device)
            saved = check_saved(target, cell_of(ctx.cell), ctx.choice.save, ctx.sizes, saved)
    d_states, d_last = list(gradients[:count]), list(gradients[count : 2 * count])
    tensors, more = schemas.to_backward(saved), schemas.to_last(saved)
    results = torch.ops.rnnc.scan_backward(
        d_states, d_last, *tensors, ctx.cell, *ctx.choice.of_scan, *more
    )  # fmt: skip
    found = schemas.from_results(results, count, unweighted)
    return schemas.to_scan_gradients(found, saved, ctx.has_bias)[: ctx.given]


def _refuse_second(*_: Any) -> Any:
    raise SecondOrderError(
        "gradient of a gradient",
        "a backward through rnnc::scan_backward",
        "a first derivative: the kernels compute no others",
        'backend="reference", which autograd can differentiate to any order',
    )


scan_op.register_autograd(_backward, setup_context=_setup_context)
scan_backward_op.register_autograd(_refuse_second)
scan_op.register_autocast("cpu", torch.float32)
