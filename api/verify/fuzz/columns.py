"""The inputs that no weight multiplies, as the loop of a case reads them: columns beside wx.

`column_of` is part of the text of reports: it uses its arguments alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..draw.tree import Case


def column_of(value: Any, shape: Any) -> Any:
    """An input as a column of wx, (B, T, N, D, 1).

    Args:
        value: of the call, rows first.
        shape: B, T, N and D.
    """
    if value.ndim == 2:
        value = value[..., None, None]
    elif value.ndim == 3:
        value = value.unflatten(-1, shape[2:])
    return value.expand(shape)[..., None]


def with_columns(case: Case, wx: Tensor, leaves: Mapping[str, Tensor]) -> Tensor:
    """The wx of a loop: that of the gates, and a column for each input.

    Args:
        case: the call.
        wx: (B, T, N, D, Gx).
        leaves: all tensors of the call.
    """
    values = [leaves[f"inputs.{i.name}"] for i in case.cell.inputs]
    return torch.cat([wx, *(column_of(v, wx.shape[:4]) for v in values)], -1) if values else wx


def shape_of_input(case: Case, form: str) -> tuple[int, ...]:
    """The shape of an input of a call.

    Args:
        case: the call.
        form: which axes it has.
    """
    units = (case.heads, case.dim) if case.through == "scan" else (case.heads * case.dim,)
    one = (1,) * len(units) if case.through == "scan" else ()
    return {
        "full": (case.batch, case.steps, *units),
        "rows": (case.batch, case.steps),
        "steps": (1, case.steps, *one),
        "units": (1, 1, *units),
    }[form]
