"""The CPU kernels, called on torch tensors, and the gradient of R."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.cpu.plan import CpuPlan
from ...codegen.layout import layout_of
from ...codegen.spaces import numbers
from ..gemms import summed_over_time
from ..store.facts import counts_of
from ..tensors import Forward, Gradients, Saved, ScanInputs, first_address
from .arguments import Sizes, backward_arguments, forward_arguments
from .compile import cpu_library


def forward(
    cell: CellSpec, plan: CpuPlan, inputs: ScanInputs, for_backward: bool, stored: Sequence[bool]
) -> Forward:
    """Run all steps.

    Args:
        cell: the cell.
        plan: its plan.
        inputs: of the call, in the plan's dtype; wx may have any strides.
        for_backward: whether a backward may follow.
        stored: which states are returned at all steps.
    """
    wx, counts = inputs.wx, counts_of(cell)
    batch, steps, heads, dim, _ = wx.shape
    states = [wx.new_empty(steps, batch, heads, dim) for _ in stored]
    last = [wx.new_empty(batch, heads, dim) for _ in stored]
    library = cpu_library(cell, plan)
    saved = wx.new_empty(steps if for_backward else 0, batch, heads, counts.saved, dim)
    # C gets the addresses of these tensors: they must live until the call returns.
    weights = [_packed(t) for t in (inputs.R, inputs.R_diag, inputs.b)]
    weights.append(_stacked(inputs.params))
    initial_states = [s.contiguous() for s in inputs.initial_states]
    wx_time, *wx_strides = (wx.stride(axis) for axis in _STRIDE_ORDER)
    reverse = plan.reverse
    arguments = forward_arguments(counts.states)(
        _sizes(batch, steps, heads, dim),
        (ctypes.c_int64 * 5)(-wx_time if reverse else wx_time, *wx_strides),
        first_address(wx, 1, reverse),
        *(_pointer(t) for t in weights),
        _pointers(initial_states),
        _first_steps(states, reverse),
        _pointers(last),
        first_address(saved, 0, reverse),
    )
    if wx.numel() or last[0].numel():
        library.rnnc_forward(ctypes.byref(arguments))
    if not all(stored):
        states = [
            s if wanted else s.new_empty(0, *s.shape[1:])
            for s, wanted in zip(states, stored, strict=True)
        ]
    return Forward(states, last, saved)


# The struct has the strides of time, batch row, head, unit and gate, in this order.
_STRIDE_ORDER = (1, 0, 2, 3, 4)


def backward(
    cell: CellSpec,
    plan: CpuPlan,
    saved: Saved,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
) -> Gradients:
    """Run all steps backwards, then the sums over time.

    Args:
        cell: the cell.
        plan: its plan.
        saved: of the forward.
        d_states: the gradient of each state at all steps, (T, B, N, D), or None for zero.
        d_last: the gradient of each last state, (B, N, D), or None for zero.
    """
    counts, reverse = counts_of(cell), plan.reverse
    values, states = saved.saved.contiguous(), [s.contiguous() for s in saved.states]
    initial_states = [s.contiguous() for s in saved.initial_states]
    steps, (batch, heads, dim) = len(values), initial_states[0].shape
    sizes = _sizes(batch, steps, heads, dim)
    tiles = math.ceil(batch / sizes.tile_rows)
    new = values.new_empty
    d_gates = new(steps, batch, heads, counts.gates, dim)
    d_bias = new(tiles, counts.gates, heads, dim)
    d_params = new(tiles, counts.params, heads, dim)
    d_diagonal = new(tiles, counts.diagonal, heads, dim)
    d_initial_states = [new(batch, heads, dim) for _ in initial_states]
    weights = [_packed(saved.R), _packed(saved.R_diag), _stacked(saved.params)]
    seeds = [[_packed(t) for t in ts] for ts in (d_states, d_last)]
    arguments = backward_arguments(counts.states)(
        sizes,
        *(_pointer(t) for t in weights),
        _pointers(initial_states),
        _first_steps(states, reverse),
        first_address(values, 0, reverse),
        _first_steps(seeds[0], reverse),
        _pointers(seeds[1]),
        first_address(d_gates, 0, reverse),
        _pointers(d_initial_states),
        *(t.data_ptr() for t in (d_bias, d_params, d_diagonal)),
    )
    if d_initial_states[0].numel():
        cpu_library(cell, plan).rnnc_backward(ctypes.byref(arguments))
    d_wx = d_gates[:, :, :, : counts.inputs]  # (T, B, N, Gx, D)
    return Gradients(
        d_wx=d_wx.permute(1, 0, 2, 4, 3),
        d_R=_recurrent_gradient(cell, d_gates, states, initial_states, reverse),
        d_b=d_bias.sum(0)[counts.biases],
        d_initial_states=d_initial_states,
        d_R_diag=d_diagonal.sum(0),
        d_params=d_params.sum(0),
    )


class _Product(NamedTuple):
    """One product over all steps: the gradients of the gates that read a state, with that state.

    Attributes:
        state: the number of the state.
        gates: the numbers of the gates.
        matrices: the number of each gate's matrix in R.
        adjacent: whether the gates' numbers follow each other.
    """

    state: int
    gates: list[int]
    matrices: list[int]
    adjacent: bool


@lru_cache(maxsize=512)
def _products(cell: CellSpec) -> list[_Product]:
    """The products of a cell, one per state that a matrix reads.

    The order of gates in a product is the layout's, not that of declarations, since a library's
    rounding depends on a gate's column.
    """
    layout = layout_of(cell)
    found = []
    for source, state in layout.sources.items():
        matrices = layout.matrices_of(source)
        gates = numbers(layout.dense_gates[matrix] for matrix in matrices)
        adjacent = gates == list(range(gates[0], gates[0] + len(gates)))
        found.append(_Product(state.number, gates, numbers(matrices), adjacent))
    return found


def _recurrent_gradient(
    cell: CellSpec,
    d_gates: Tensor,
    states: Sequence[Tensor],
    initial_states: Sequence[Tensor],
    reverse: bool,
) -> Tensor:
    """d_R[gate] = sum over time and batch of d_gate s_{t-1}: a GEMM per head and source."""
    products = _products(cell)
    steps, batch, heads, _, dim = d_gates.shape
    d_R = d_gates.new_empty(sum(len(p.matrices) for p in products), heads, dim, dim)
    if not steps:
        return d_R.zero_()
    for state, gates, matrices, adjacent in products:
        count = len(gates)
        if adjacent:
            columns = d_gates[:, :, :, gates[0] : gates[0] + count]
        else:
            columns = d_gates.index_select(3, torch.tensor(gates))
        rows = columns.reshape(steps * batch, heads, count * dim)
        over_time = initial_states[state], states[state]
        product = summed_over_time(rows, *over_time, reverse=reverse)
        product = product.view(heads, count, dim, dim)
        for column, matrix in enumerate(matrices):
            d_R[matrix] = product[:, column]
    return d_R


def _sizes(batch: int, steps: int, heads: int, dim: int) -> Sizes:
    threads = torch.get_num_threads()
    return Sizes(steps, batch, heads, dim, tile_rows(batch, heads, threads), threads)


def tile_rows(batch: int, heads: int, threads: int) -> int:
    """Batch rows per task: as many as keep the threads evenly busy, since each task reads all of R.

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


def _first_steps(tensors: Sequence[Tensor | None], reverse: bool) -> Any:
    """Of tensors with time first, the address of the step that runs first."""
    return (ctypes.c_void_p * len(tensors))(*(first_address(t, 0, reverse) for t in tensors))
