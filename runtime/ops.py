"""The kernels as operators of torch: forward and backward, for autograd, autocast and compile.

A cell travels as its JSON, so that a graph that holds the operator is complete in itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.derive import derive
from ..codegen.layout import layout_of
from . import cpu
from .errors import SecondOrderError


@lru_cache(maxsize=512)
def cell_of(text: str) -> CellSpec:
    """The cell that an operator's text argument describes."""
    return CellSpec.from_json(text)


@torch.library.custom_op("rnnc::scan", mutates_args=(), device_types="cpu")
def scan_op(
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    cell: str,
    keep: bool,
) -> list[Tensor]:
    """All states at all steps (T, B, N, D), the last (B, N, D), and what the backward needs."""
    result = cpu.forward(cell_of(cell), wx, R, R_diag, b, params, initial, keep)
    return [*result.states, *result.last, result.kept]


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
) -> list[Tensor]:
    batch, steps, heads, dim, _ = wx.shape
    saved = len(derive(cell_of(cell)).saved)
    return [
        *(wx.new_empty(steps, batch, heads, dim) for _ in initial),
        *(wx.new_empty(batch, heads, dim) for _ in initial),
        wx.new_empty(steps if keep else 0, batch, heads, saved, dim),
    ]


@torch.library.custom_op("rnnc::scan_backward", mutates_args=(), device_types="cpu")
def scan_backward_op(
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    R: Tensor | None,
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    states: Sequence[Tensor],
    kept: Tensor,
    cell: str,
) -> list[Tensor]:
    """d_wx (T, B, N, Gx, D), d_R, d_R_diag, d_b, d_params (P, N, D) and d_initial of each state."""
    g = cpu.backward(cell_of(cell), d_states, d_last, R, R_diag, params, initial, states, kept)
    return [g.d_wx, g.d_R, g.d_R_diag, g.d_b, g.d_params, *g.d_initial]


@scan_backward_op.register_fake
def _(
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    R: Tensor | None,
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    states: Sequence[Tensor],
    kept: Tensor,
    cell: str,
) -> list[Tensor]:
    spec = cell_of(cell)
    layout = layout_of(spec)
    steps, batch, heads, dim = states[0].shape
    new = states[0].new_empty
    d_gates = new(steps, batch, heads, len(layout.gates), dim)
    return [
        d_gates[:, :, :, : len(layout.input_gates)],
        new(len(spec.dense_pairs), heads, dim, dim),
        new(len(spec.diagonal_pairs), heads, dim),
        new(len(spec.bias_gates), heads, dim),
        new(len(spec.params), heads, dim),
        *(new(batch, heads, dim) for _ in initial),
    ]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    _, R, R_diag, b, params, initial, ctx.cell, keep = inputs
    if not keep:
        raise RuntimeError("rnnc::scan was called with keep=False on tensors that need gradients")
    count = len(initial)
    ctx.count = count
    ctx.has_bias = b is not None
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(R, R_diag, *params, *initial, *output[:count], output[-1])


def _backward(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    R, R_diag, *rest = ctx.saved_tensors
    count = ctx.count
    params, rest = rest[: len(rest) - 2 * count - 1], rest[len(rest) - 2 * count - 1 :]
    initial, states, kept = rest[:count], rest[count : 2 * count], rest[-1]
    d_wx, d_R, d_R_diag, d_b, d_params, *d_initial = torch.ops.rnnc.scan_backward(
        list(gradients[:count]),
        list(gradients[count : 2 * count]),
        R,
        R_diag,
        params,
        initial,
        states,
        kept,
        ctx.cell,
    )
    return (
        d_wx.permute(1, 0, 2, 4, 3),  # (T, B, N, Gx, D) -> (B, T, N, D, Gx)
        None if R is None else d_R,
        None if R_diag is None else d_R_diag,
        d_b if ctx.has_bias else None,
        list(d_params.unbind(0)),
        d_initial,
        None,
        None,
    )


def _refuse_second(*_: Any) -> Any:
    raise SecondOrderError(
        "gradient of a gradient\n"
        "  found:  a backward pass through rnnc::scan_backward\n"
        "  wanted: first derivatives: the kernels have no others\n"
        '  write:  backend="reference", which autograd can differentiate to any order'
    )


scan_op.register_autograd(_backward, setup_context=_setup_context)
scan_backward_op.register_autograd(_refuse_second)
scan_op.register_autocast("cpu", torch.float32)
