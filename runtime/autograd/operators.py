"""The kernels as operators of torch: forward and backward, for autograd, autocast and compile.

They dispatch on the device of their tensors. A cell travels as its JSON, so that a graph that holds
the operator is complete in itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...codegen.layout import layout_of
from ..call import Call, cell_of, run_backward, run_forward, stored_states
from ..check import check_operator
from ..cuda.choose import Choice
from ..errors import BackwardError, SecondOrderError
from ..store.facts import facts_of
from .plain import is_watched, treats_itself
from .record import Sizes, check_saved, check_seeds, plain_gradients, sizes_of
from .saved import Saved, saved_again, saved_from
from .transforms import check_gradients


@torch.library.custom_op("rnnc::scan", mutates_args=(), device_types=("cpu", "cuda"))
def scan_op(
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    cell: str,
    keep: bool,
    over_time: Sequence[bool],
    variant: str,
    save: str,
) -> list[Tensor]:
    """The states at all steps (T, B, N, D), the last (B, N, D), and what the backward needs.

    Of the states at all steps, those that neither `over_time` nor, with `keep`, the backward wants
    are empty. `variant` and `save` choose among the kernels of a GPU.
    """
    spec, choice = cell_of(cell), Choice(variant, save)
    check_operator(spec, wx, R, b, initial, R_diag, params, over_time)
    call = Call(spec, keep, stored_states(cell, over_time, keep), choice)
    return run_forward(call, wx, R, R_diag, b, params, initial)


@scan_op.register_fake
def _(
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    cell: str,
    keep: bool,
    over_time: Sequence[bool],
    variant: str,
    save: str,
) -> list[Tensor]:
    batch, steps, heads, dim, _ = wx.shape
    stored = stored_states(cell, over_time, keep)
    saved = len(facts_of(cell_of(cell)).saved)
    if wx.device.type == "cuda":
        kept = wx.new_empty(steps if keep and save == "gates" else 0, batch, heads, dim, saved)
    else:
        kept = wx.new_empty(steps if keep else 0, batch, heads, saved, dim)
    return [
        *(wx.new_empty(steps if stored_ else 0, batch, heads, dim) for stored_ in stored),
        *(wx.new_empty(batch, heads, dim) for _ in initial),
        kept,
    ]


@torch.library.custom_op("rnnc::scan_backward", mutates_args=(), device_types=("cpu", "cuda"))
def scan_backward_op(
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    wx: Tensor | None,
    b: Tensor | None,
    R: Tensor | None,
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    states: Sequence[Tensor],
    kept: Tensor,
    cell: str,
    variant: str,
    save: str,
) -> list[Tensor]:
    """d_wx (B, T, N, D, Gx), d_R, d_R_diag, d_b, d_params (P, N, D) and d_initial of each state.

    `wx` and `b` are given where the gates are computed again.
    """
    spec = cell_of(cell)
    saved = Saved(wx, b, R, R_diag, tuple(params), tuple(initial), tuple(states), kept)
    sizes = sizes_of(saved)
    saved = check_saved(spec, save, sizes, saved)
    check_seeds(spec, sizes, d_states, d_last)
    # The dispatcher writes negatives out of tensors and lists of them, not of lists with gaps.
    d_states, d_last = plain_gradients(d_states), plain_gradients(d_last)
    call = Call(spec, True, (), Choice(variant, save))
    return run_backward(call, d_states, d_last, *saved)


@scan_backward_op.register_fake
def _(
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    wx: Tensor | None,
    b: Tensor | None,
    R: Tensor | None,
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    states: Sequence[Tensor],
    kept: Tensor,
    cell: str,
    variant: str,
    save: str,
) -> list[Tensor]:
    spec = cell_of(cell)
    layout = layout_of(spec)
    batch, heads, dim = initial[0].shape
    steps = kept.shape[0] if wx is None else wx.shape[1]
    new = initial[0].new_empty
    inputs, gates = len(layout.input_gates), len(layout.gates)
    if initial[0].device.type == "cuda":
        d_wx = new(steps, batch, heads, dim, inputs).transpose(0, 1)
    else:
        d_wx = new(steps, batch, heads, gates, dim)[:, :, :, :inputs].permute(1, 0, 2, 4, 3)
    return [
        d_wx,
        new(len(spec.dense_pairs), heads, dim, dim),
        new(len(spec.diagonal_pairs), heads, dim),
        new(len(spec.bias_gates), heads, dim),
        new(len(spec.params), heads, dim),
        *(new(batch, heads, dim) for _ in initial),
    ]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    wx, R, R_diag, b, params, initial, ctx.cell, keep, _, ctx.variant, ctx.save = inputs
    if not keep:
        raise BackwardError(
            "a backward through rnnc::scan",
            "rnnc::scan was called with keep=False on tensors that need gradients",
            "keep=True, or a call without gradients",
            "keep=True, or torch.no_grad() around the call",
        )
    ctx.count = len(initial)
    ctx.has_bias = b is not None
    ctx.set_materialize_grads(False)
    saved = saved_from(ctx.save, wx, R, R_diag, b, params, initial, output)
    flat = saved.flat()
    batch, steps, heads, dim, _ = wx.shape
    own = is_watched() or any(t is not None and treats_itself(t) for t in flat)
    # Who traces, or brings tensors of a type that treats operators itself, answers for them.
    ctx.sizes = None if own else Sizes(steps, batch, heads, dim, wx.dtype, wx.device)
    ctx.save_for_backward(*flat)


def _backward(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    count = ctx.count
    saved = saved_again(ctx.saved_tensors, count)
    if not torch.compiler.is_compiling():
        check_gradients(gradients)
        if ctx.sizes is not None and not is_watched():
            saved = check_saved(cell_of(ctx.cell), ctx.save, ctx.sizes, saved)
    d_states, d_last = list(gradients[:count]), list(gradients[count : 2 * count])
    more = (ctx.cell, ctx.variant, ctx.save)
    results = torch.ops.rnnc.scan_backward(d_states, d_last, *saved, *more)
    return (*saved.named(results, ctx.has_bias), *(None,) * 5)


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
