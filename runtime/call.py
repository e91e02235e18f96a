"""One call of a cell's kernels, on whatever device its tensors are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.layout import layout_of
from .cpu import kernels as cpu
from .cuda import kernels as cuda
from .cuda.choose import Choice
from .store.facts import facts_of


class Call(NamedTuple):
    """What a call is, beside its tensors.

    Attributes:
        cell: the cell.
        keep: whether a backward pass may follow.
        stored: which states are returned at all steps.
        choice: among the kernels of a GPU.
    """

    cell: CellSpec
    keep: bool
    stored: tuple[bool, ...]
    choice: Choice


@lru_cache(maxsize=512)
def cell_of(text: str) -> CellSpec:
    """The cell that an operator's text argument describes."""
    return CellSpec.from_json(text)


def stored_states(cell: str, over_time: Sequence[bool], keep: bool) -> tuple[bool, ...]:
    """Which states a call returns at all steps.

    Args:
        cell: as JSON.
        over_time: which the caller wants.
        keep: whether the backward's are wanted too.
    """
    reads = _reads_of(cell)
    return tuple(w or (keep and read) for w, read in zip(over_time, reads, strict=True))


@lru_cache(maxsize=512)
def _reads_of(cell: str) -> tuple[bool, ...]:
    return backward_reads(cell_of(cell))


@lru_cache(maxsize=512)
def backward_reads(cell: CellSpec) -> tuple[bool, ...]:
    """Which states at all steps the backward needs: those it reads, and the sources of products."""
    layout = layout_of(cell)
    reads = zip(layout.states, facts_of(cell).reads, strict=True)
    return tuple(r or state in layout.sources.values for state, r in reads)


def run_forward(
    call: Call,
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
) -> list[Tensor]:
    """The states at all steps (T, B, N, D), the last (B, N, D), and what the backward needs."""
    if wx.device.type == "cuda":
        result = cuda.forward(
            call.cell, wx, R, R_diag, b, params, initial, call.keep, call.stored, call.choice
        )
        return [*result.states, *result.last, result.kept]
    result = cpu.forward(call.cell, wx, R, R_diag, b, params, initial, call.keep)
    states = [
        s if wanted else s.new_empty(0, *s.shape[1:])
        for s, wanted in zip(result.states, call.stored, strict=True)
    ]
    return [*states, *result.last, result.kept]


def run_backward(
    call: Call,
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
    donated: bool = False,
) -> list[Tensor]:
    """d_wx (B, T, N, D, Gx), d_R, d_R_diag, d_b, d_params (P, N, D) and d_initial of each state.

    Where nobody reads `kept` again, it may be `donated`: on a GPU d_wx then takes its memory.
    """
    device = initial[0].device.type
    if torch.is_autocast_enabled(device):
        # A caller's backward inside autocast: sums over time are products of torch's, which it
        # would round. What the kernels compute in was decided by the forward.
        with torch.autocast(device, enabled=False):
            saved = (wx, b, R, R_diag, params, initial, states, kept)
            return run_backward(call, d_states, d_last, *saved, donated=donated)
    if device == "cuda":
        saved = (wx, b, R, R_diag, params, initial, states, kept)
        g = cuda.backward(call.cell, d_states, d_last, *saved, call.choice, donated=donated)
        d_wx = g.d_wx.transpose(0, 1)
    else:
        g = cpu.backward(call.cell, d_states, d_last, R, R_diag, params, initial, states, kept)
        d_wx = g.d_wx.permute(1, 0, 2, 4, 3)
    return [d_wx, g.d_R, g.d_R_diag, g.d_b, g.d_params, *g.d_initial]
