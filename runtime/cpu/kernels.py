"""The CPU kernels, called on torch tensors: arguments in C's layout, sums that end in GEMMs."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.layout import Layout, layout_of
from ...codegen.plan import CpuPlan
from ...codegen.shape import Dtype
from ...codegen.spaces import Table, numbers
from ..gemms import summed_over_time
from .compile import cpu_library

_DTYPES: dict[torch.dtype, Dtype] = {torch.float32: "float32", torch.float64: "float64"}


class _Sizes(ctypes.Structure):
    """Mirrors `Sizes` in templates/cpu/lib/layout.h."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("steps", "batch", "heads", "dim", "tile_rows", "threads")
    ]


@lru_cache(maxsize=64)
def _forward_arguments(states: int) -> type[ctypes.Structure]:
    """Mirrors `ForwardArguments`; its length depends on the number of states."""
    many = ctypes.c_void_p * states

    class ForwardArguments(ctypes.Structure):
        _fields_ = [
            ("sizes", _Sizes),
            ("wx_strides", ctypes.c_int64 * 5),
            *((name, ctypes.c_void_p) for name in ("wx", "R", "R_diag", "b", "params")),
            *((name, many) for name in ("initial", "states", "last")),
            ("kept", ctypes.c_void_p),
        ]

    return ForwardArguments


@lru_cache(maxsize=64)
def _backward_arguments(states: int) -> type[ctypes.Structure]:
    """Mirrors `BackwardArguments`."""
    many = ctypes.c_void_p * states

    class BackwardArguments(ctypes.Structure):
        _fields_ = [
            ("sizes", _Sizes),
            *((name, ctypes.c_void_p) for name in ("R", "R_diag", "params")),
            *((name, many) for name in ("initial", "states")),
            ("kept", ctypes.c_void_p),
            *((name, many) for name in ("d_states", "d_last")),
            ("d_gates", ctypes.c_void_p),
            ("d_initial", many),
            *((name, ctypes.c_void_p) for name in ("d_bias", "d_params", "d_diagonal")),
        ]

    return BackwardArguments


@dataclass(frozen=True)
class Forward:
    """What a forward pass leaves.

    Attributes:
        states: each state at all steps, (T, B, N, D).
        last: each state after the last step, (B, N, D).
        kept: what the backward needs besides, (T, B, N, saved, D); of no steps where none follows.
    """

    states: list[Tensor]
    last: list[Tensor]
    kept: Tensor


@dataclass(frozen=True)
class Gradients:
    """What a backward pass gives: `d_wx` (T, B, N, Gx, D), the others shaped as their tensors."""

    d_wx: Tensor
    d_R: Tensor
    d_R_diag: Tensor
    d_b: Tensor
    d_params: Tensor
    d_initial: list[Tensor]


def forward(
    cell: CellSpec,
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    keep: bool,
) -> Forward:
    """Run all steps.

    Args:
        cell: the cell.
        wx: (B, T, N, D, Gx) with any strides; float32 or float64, as all others.
        R: (Gr, N, D, D), where the cell has dense gates.
        R_diag: (Gd, N, D), where it has diagonal gates.
        b: (Gb, N, D), or None for no bias.
        params: (N, D) each.
        initial: the states before the first step, (B, N, D) each.
        keep: whether a backward pass may follow.
    """
    layout = layout_of(cell)
    batch, steps, heads, dim, _ = wx.shape
    states = [wx.new_empty(steps, batch, heads, dim) for _ in layout.states]
    last = [wx.new_empty(batch, heads, dim) for _ in layout.states]
    library = _library(cell, wx)
    kept = wx.new_empty(steps if keep else 0, batch, heads, saved_values(library), dim)
    # Views of these tensors are given to C: they must live until the call returns.
    held = [_packed(R), _packed(R_diag), _packed(b), _stacked(params)]
    initial = [s.contiguous() for s in initial]
    time, row, head, unit, gate = 1, 0, 2, 3, 4
    make = _forward_arguments(len(layout.states))
    arguments = make(
        _sizes(batch, steps, heads, dim),
        (ctypes.c_int64 * 5)(*(wx.stride(axis) for axis in (time, row, head, unit, gate))),
        wx.data_ptr(),
        *(_pointer(t) for t in held),
        *(_pointers(ts) for ts in (initial, states, last)),
        _pointer(kept if keep else None),
    )
    if wx.numel() or last[0].numel():
        library.rnnc_forward(ctypes.byref(arguments))
    return Forward(states, last, kept)


def backward(
    cell: CellSpec,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    R: Tensor | None,
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    states: Sequence[Tensor],
    kept: Tensor,
) -> Gradients:
    """Run all steps backwards, then the sums over time.

    Args:
        cell: the cell.
        d_states: the gradient of each state at all steps, (T, B, N, D), or None for zero.
        d_last: the gradient of each last state, (B, N, D), or None for zero.
        R: as in `forward`.
        R_diag: as in `forward`.
        params: as in `forward`.
        initial: as in `forward`.
        states: what `forward` left.
        kept: what `forward` left.
    """
    layout = layout_of(cell)
    steps, (batch, heads, dim) = len(kept), initial[0].shape
    kept, states = kept.contiguous(), [s.contiguous() for s in states]
    sizes = _sizes(batch, steps, heads, dim)
    tiles = math.ceil(batch / sizes.tile_rows)
    new = initial[0].new_empty
    d_gates = new(steps, batch, heads, len(layout.gates), dim)
    d_bias = new(tiles, len(layout.gates), heads, dim)
    d_params = new(tiles, len(layout.params), heads, dim)
    d_diagonal = new(tiles, len(layout.diagonal_gates), heads, dim)
    d_initial = [new(batch, heads, dim) for _ in layout.states]
    held = [_packed(R), _packed(R_diag), _stacked(params)]
    lists = [[None if t is None else t.contiguous() for t in ts] for ts in (d_states, d_last)]
    initial = [s.contiguous() for s in initial]
    make = _backward_arguments(len(layout.states))
    arguments = make(
        sizes,
        *(_pointer(t) for t in held),
        *(_pointers(ts) for ts in (initial, states)),
        kept.data_ptr(),
        *(_pointers(ts) for ts in lists),
        d_gates.data_ptr(),
        _pointers(d_initial),
        *(t.data_ptr() for t in (d_bias, d_params, d_diagonal)),
    )
    if d_initial[0].numel():
        _library(cell, initial[0]).rnnc_backward(ctypes.byref(arguments))
    return Gradients(
        d_wx=d_gates[:, :, :, : len(layout.input_gates)],
        d_R=_recurrent_gradient(layout, d_gates, states, initial),
        d_R_diag=d_diagonal.sum(0),
        d_b=d_bias.sum(0)[numbers(layout.bias)],
        d_params=d_params.sum(0),
        d_initial=d_initial,
    )


def _recurrent_gradient(
    layout: Layout, d_gates: Tensor, states: Sequence[Tensor], initial: Sequence[Tensor]
) -> Tensor:
    """d_R[gate] = sum over time and batch of d_gate s_{t-1}: a GEMM a head and source.

    A GEMM has all gates that read the source, by name: a library's roundings depend on where a
    gate stands, which the order of declarations shall not decide.
    """
    steps, batch, heads, _, dim = d_gates.shape
    d_R = d_gates.new_empty(len(layout.dense_gates), heads, dim, dim)
    if not steps:
        return d_R.zero_()
    before, after = (Table(layout.states, tuple(ts)) for ts in (initial, states))
    for source, state in layout.sources.items():
        matrices = layout.matrices_of(source)
        gates = numbers(layout.dense_gates[matrix] for matrix in matrices)
        first, count = gates[0], len(gates)
        if gates == list(range(first, first + count)):
            run = d_gates[:, :, :, first : first + count]
        else:
            run = d_gates.index_select(3, torch.tensor(gates))
        rows = run.reshape(steps * batch, heads, count * dim)
        product = summed_over_time(rows, before[state], after[state])
        product = product.view(heads, count, dim, dim)
        for place, matrix in enumerate(matrices):
            d_R[matrix.number] = product[:, place]
    return d_R


def saved_values(library: ctypes.CDLL) -> int:
    """How many values a unit the forward keeps for the backward: the kernels say so themselves."""
    return ctypes.c_int64.in_dll(library, "rnnc_saved").value


def _library(cell: CellSpec, like: Tensor) -> ctypes.CDLL:
    return cpu_library(cell, CpuPlan(_DTYPES[like.dtype]))


def _sizes(batch: int, steps: int, heads: int, dim: int) -> _Sizes:
    threads = torch.get_num_threads()
    return _Sizes(steps, batch, heads, dim, tile_rows(batch, heads, threads), threads)


def tile_rows(batch: int, heads: int, threads: int) -> int:
    """Batch rows a task: as many as keep the threads evenly busy, since each task reads all of R.

    Args:
        batch: batch rows.
        heads: heads; a task holds one.
        threads: threads that take tasks.
    """

    def busy(rows: int) -> float:
        tasks = heads * math.ceil(batch / rows)
        return tasks / (threads * math.ceil(tasks / threads))

    sizes = [rows for rows in (64, 32, 16, 8, 4, 2, 1) if rows < 2 * max(batch, 1)]
    best = max(busy(rows) for rows in sizes) if batch else 1.0
    return next(rows for rows in sizes if not batch or busy(rows) >= 0.9 * best)


def _packed(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _stacked(tensors: Sequence[Tensor]) -> Tensor | None:
    return torch.stack(tuple(tensors)) if tensors else None


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _pointers(tensors: Sequence[Tensor | None]) -> Any:
    return (ctypes.c_void_p * len(tensors))(*(_pointer(t) for t in tensors))
