"""Inputs that calls of `rnnc.scan` and `rnnc.scan_packed` draw."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ..run.draws import Drawing, cell_of_call, check_drawing, with_draws

# T, B, N and D.
Shape = tuple[int, int, int, int]


def sampled(cell: CellSpec, wx: Any, drawing: Drawing) -> tuple[CellSpec, Any]:
    """Return the cell that a call of `rnnc.scan` runs, and its inputs with those that it draws.

    Arguments are the caller's; where wx is wrong, the checks of the call say it.
    """
    inputs, sample, generator, reset = drawing
    if not isinstance(wx, Tensor) or wx.layout != torch.strided or wx.ndim != 5:
        return cell, inputs
    check_drawing(sample, generator, wx.device)
    cell = cell_of_call(cell, inputs, sample)
    batch, steps, heads, dim, _ = wx.shape
    in_time = reset.t() if isinstance(reset, Tensor) and reset.ndim == 2 else None
    shape = steps, batch, heads, dim
    return cell, with_draws_of_scan(cell, drawing._replace(reset=in_time), wx, shape)


def with_draws_of_scan(cell: CellSpec, drawing: Drawing, wx: Tensor, shape: Shape) -> Any:
    """Return inputs of padded rows with those that the call draws, (B, T, N, D) each.

    The `reset` of `drawing` is (T, B).
    """
    return with_draws(cell, drawing, wx, (1, *shape), _rows_first)


def _rows_first(draws: Tensor) -> Tensor:
    """Return the only part of what was drawn as (B, T, N, D)."""
    return draws[0].transpose(0, 1)
