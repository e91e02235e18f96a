"""Packed sequences as one row, which begins anew at each of them: nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.layer_call import Choice
from ..call.tensors import States
from .scan import Given, run_scan

# R, b and R_diag.
Weights = tuple[Any, Any, Any]


def scan_one_row(
    cell: CellSpec,
    backend: str,
    choice: Choice,
    wx: Tensor,
    weights: Weights,
    params: Mapping[str, Tensor] | None,
    starts: Tensor,
    reset: Tensor | None,
    inputs: Mapping[str, Tensor] | None,
) -> tuple[States, States]:
    """Run sequences that begin with each state's `init` and are reset to it, as `scan_packed` does.

    Args:
        weights: R, b and R_diag.
        starts: (B + 1), where each sequence begins and, last, the total; wrong ones are clamped.
        reset: (total,) of bool; None for none.
        inputs: (total or 1, N or 1, D or 1) each, by name.
    """
    total = len(wx)
    begin, end = (part.long().clamp(0, total) for part in (starts[:-1], starts[1:]))
    anew = torch.zeros(total + 1, dtype=torch.bool, device=wx.device)
    anew = anew.index_fill(0, begin, True)[:total]
    if reset is not None:
        anew = anew | reset
    given_inputs = None if inputs is None else {name: each[None] for name, each in inputs.items()}
    given = Given(wx[None], None, weights, params, None, anew[None], None, given_inputs)
    over_time, _ = run_scan(cell, backend, choice, given)
    states = tuple(state.squeeze(1) for state in over_time)
    place = (begin if choice.reverse else end - 1).clamp(0, total - 1)
    runs = (end > begin)[:, None, None]
    last = (state.index_select(0, place) for state in states)
    inits = [state.init for state in cell.states]
    return states, tuple(torch.where(runs, s, i) for s, i in zip(last, inits, strict=True))
