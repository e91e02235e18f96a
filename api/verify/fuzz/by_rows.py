"""The loop of a case with lengths and resets: each row by itself, cut at its resets.

`by_rows` is part of the text of reports: it uses torch and its arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..draw.tree import Case


def by_rows(
    run: Callable[..., Any], wx: Any, states: Any, rows: Any, values: Any, reverse: bool
) -> Any:
    """The states over time and the last ones, from a call of `run` for each part of each row.

    Args:
        run: (wx, states) -> the states over time and the last ones.
        wx: (B, T, N, D, Gx).
        states: (B, N, D) each.
        rows: the length and the resets of each row.
        values: (B, T, N, D) of each state, to which it is reset before a step.
        reverse: whether `run` runs from the last step to the first.
    """
    if not rows:
        return run(wx, states)
    over_time: Any = [[] for _ in states]
    lasts: Any = [[] for _ in states]
    for row, (length, resets) in enumerate(rows):
        now = [s[row : row + 1] for s in states]
        found = {}
        cuts = [0, *[t for t in resets if 0 < t < length], length]
        parts = [(a, b) for a, b in zip(cuts, cuts[1:]) if a < b]  # noqa: B905, RUF007
        for begin, end in parts[::-1] if reverse else parts:
            at = end if reverse else begin
            if at in resets and at < length:
                now = [v[row : row + 1, at] for v in values]
            found[begin], now = run(wx[row : row + 1, begin:end], now)
        for i, value in enumerate(now):
            rest = value.new_zeros(1, wx.shape[1] - length, *value.shape[1:])
            over_time[i].append(torch.cat([*[found[a][i] for a, _ in parts], rest], 1))
            lasts[i].append(value)
    return [torch.cat(s) for s in over_time], [torch.cat(s) for s in lasts]


def padding(case: Case) -> Tensor:
    """Which steps of which rows do not run, (B, T).

    Args:
        case: the call.
    """
    ends = torch.tensor([length for length, _ in case.rows] or [case.steps] * case.batch)
    return torch.arange(case.steps)[None] >= ends[:, None]


def padded(case: Case, name: str, values: Tensor) -> Tensor:
    """A tensor as the kernels get it: NaN in its padding, which they must not read.

    Args:
        case: the call.
        name: of the tensor, or of an output whose gradient it is.
        values: its values.
    """
    in_time = name in ("x", "wx", "y") or name.endswith(" over time")
    in_time |= name.startswith("inputs.") and values.shape[:2] == (case.batch, case.steps)
    view = dict(case.views).get(name, dict(case.views).get(f"d {name}", "plain"))
    if not case.rows or not in_time or view.startswith("expanded"):
        return values
    where = padding(case).view(case.batch, case.steps, *(1,) * (values.ndim - 2))
    return values.masked_fill(where, float("nan"))


def reset_tensor(case: Case) -> Tensor | None:
    """The argument `reset` of a case, (B, T); None without resets.

    Args:
        case: the call.
    """
    if not case.resets:
        return None
    found = torch.zeros(case.batch, case.steps, dtype=torch.bool, device=case.device)
    for row, (_, resets) in enumerate(case.rows):
        found[row, list(resets)] = True
    return found
