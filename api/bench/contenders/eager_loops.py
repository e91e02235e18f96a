"""Plain torch loops for torch.compile: one product for all gates, then pointwise operations.

torch.compile unrolls a loop, so a whole one takes part at few steps only. At any number of steps
it compiles the step, and Python loops.

The reference serves any cell and multiplies gate by gate, so it would be a weak contender here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..inputs import Call, Inputs
from ..rows import BenchError
from .contender import Contender

Gates = list[Tensor]
Step = Callable[[Gates, Gates, list[Tensor]], list[Tensor]]


def _lstm(x: Gates, r: Gates, states: list[Tensor]) -> list[Tensor]:
    i, f, z, o = (a + b for a, b in zip(x, r, strict=True))
    c = torch.sigmoid(f) * states[1] + torch.sigmoid(i) * torch.tanh(z)
    return [torch.sigmoid(o) * torch.tanh(c), c]


def _slstm(x: Gates, r: Gates, states: list[Tensor]) -> list[Tensor]:
    i, f, z, o = (a + b for a, b in zip(x, r, strict=True))
    _, c, n, m = states
    kept = F.logsigmoid(f) + m
    m = torch.where(n == 0, i, torch.maximum(i, kept)).detach()
    i_scale, f_scale = torch.exp(i - m), torch.exp((kept - m).clamp(max=60))
    c = f_scale * c + i_scale * torch.tanh(z)
    n = f_scale * n + i_scale
    return [torch.sigmoid(o) * c / n, c, n, m]


def _elman(x: Gates, r: Gates, states: list[Tensor]) -> list[Tensor]:
    return [torch.tanh(x[0] + r[0])]


def _gru(x: Gates, r: Gates, states: list[Tensor]) -> list[Tensor]:
    z = torch.sigmoid(x[1] + r[1])
    n = torch.tanh(x[2] + torch.sigmoid(x[0] + r[0]) * r[2])
    return [(1 - z) * n + z * states[0]]


# The step of a cell, and its number of states. Biases are part of wx; the GRU's on m is left out.
_STEPS: dict[str, tuple[Step, int]] = {
    "lstm": (_lstm, 2),
    "slstm": (_slstm, 4),
    "elman": (_elman, 1),
    "gru": (_gru, 1),
}


def has_loop(cell: str) -> bool:
    """Whether a cell has a plain loop."""
    return cell in _STEPS


def plain_loop(cell: str, wx: Tensor, R: Tensor) -> Tensor:
    """The output h of a cell at all steps, from zero states and without biases.

    Args:
        cell: its name.
        wx: (B, T, N, D, Gx), as in `rnnc.scan`.
        R: (Gr, N, D, D).

    Returns:
        (B, T, N, D).

    Example:
        >>> import torch
        >>> from rnnc.bench.contenders.eager_loops import plain_loop
        >>> plain_loop("elman", torch.randn(2, 5, 1, 8, 1), torch.randn(1, 1, 8, 8)).shape
        torch.Size([2, 5, 1, 8])
    """
    return _over_time(_one_step, cell, wx, R)


def _over_time(one_step: Callable[..., list[Tensor]], cell: str, wx: Tensor, R: Tensor) -> Tensor:
    gates, heads, dim, _ = R.shape
    batch, steps = wx.shape[:2]
    weights = R.permute(1, 3, 0, 2).reshape(heads, dim, gates * dim)
    states = [wx.new_zeros(batch, heads, dim) for _ in range(_STEPS[cell][1])]
    outputs = []
    for t in range(steps):
        states = one_step(cell, wx[:, t], weights, states)
        outputs.append(states[0])
    return torch.stack(outputs, 1)


def _one_step(cell: str, wx: Tensor, weights: Tensor, states: list[Tensor]) -> list[Tensor]:
    """States after a step: wx (B, N, D, Gx), weights (N, D, Gr * D), states (B, N, D)."""
    batch, heads, dim = states[0].shape
    product = torch.bmm(states[0].transpose(0, 1), weights)  # (N, B, gates * D)
    r = product.transpose(0, 1).reshape(batch, heads, -1, dim).unbind(2)
    return _STEPS[cell][0](list(wx.unbind(-1)), list(r), states)


def compiled_loop(dtype: str) -> Contender:
    """A plain loop under torch.compile."""

    def prepare(inputs: Inputs) -> Call:
        return _called(inputs, torch.compile(plain_loop, fullgraph=True, dynamic=False))

    return Contender("torch.compile of a loop", dtype, False, "wx ready", prepare)


def compiled_step(dtype: str) -> Contender:
    """A plain loop in Python over a step under torch.compile."""

    def prepare(inputs: Inputs) -> Call:
        step = torch.compile(_one_step, fullgraph=True, dynamic=False)
        return _called(inputs, partial(_over_time, step))

    return Contender("torch.compile of a step", dtype, False, "wx ready", prepare)


def _called(inputs: Inputs, loop: Callable[[str, Tensor, Tensor], Tensor]) -> Call:
    wx, R, cell = inputs.wx, inputs.R, inputs.row.cell
    if R is None or not has_loop(cell):
        wanted = "lstm, slstm, gru or elman"
        raise BenchError(f"no plain loop of {cell}", wanted, "another --contenders")
    return Call(lambda: loop(cell, wx, R), inputs.d_h.transpose(0, 1), [wx, R])
