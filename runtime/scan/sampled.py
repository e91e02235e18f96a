"""Inputs that calls of `rnnc.scan` and `rnnc.scan_packed` draw."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from ...cellspec.cell import CellSpec
from ..run.draws import cell_of_call, check_drawing, with_draws

# T, B, N and D.
Shape = tuple[int, int, int, int]


def sampled(
    cell: CellSpec, wx: Any, inputs: Any, reset: Any, sample: bool, generator: Generator | None
) -> tuple[CellSpec, Any]:
    """Return the cell that a call of `rnnc.scan` runs, and its inputs with those that it draws.

    Arguments are the caller's; where wx is wrong, the checks of the call say it.
    """
    if not isinstance(wx, Tensor) or wx.layout != torch.strided or wx.ndim != 5:
        return cell, inputs
    check_drawing(sample, generator, wx.device)
    cell = cell_of_call(cell, inputs, sample)
    batch, steps, heads, dim, _ = wx.shape
    in_time = reset.t() if isinstance(reset, Tensor) and reset.ndim == 2 else None
    shape = steps, batch, heads, dim
    return cell, with_draws_of_scan(cell, inputs, wx, shape, in_time, sample, generator)


def with_draws_of_scan(
    cell: CellSpec,
    inputs: Any,
    wx: Tensor,
    shape: Shape,
    reset: Tensor | None,
    sample: bool,
    generator: Generator | None,
) -> Any:
    """Return inputs of padded rows with those that the call draws, (B, T, N, D) each.

    Args:
        reset: (T, B); None for none.
    """
    return with_draws(cell, inputs, wx, (1, *shape), sample, generator, reset, _rows_first)


def _rows_first(draws: Tensor) -> Tensor:
    """Return the only part of what was drawn as (B, T, N, D)."""
    return draws[0].transpose(0, 1)
