"""Steps of cells in plain torch: as few products as there can be, then pointwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Gates = list[Tensor]
# From the number of a product and what it multiplies, (B, N, D), to a value for each gate.
Times = Callable[[int, Tensor], Gates]


class Step(NamedTuple):
    """A step of a cell.

    Attributes:
        products: how many matrices of R each product of the step multiplies, in R's order.
        states: how many there are.
        run: from the input of each gate that takes any, with its bias, the products, the states,
            and what else is learned (biases of gates without input, then the params in their
            order) to the new states.
    """

    products: tuple[int, ...]
    states: int
    run: Callable[[Gates, Times, Gates, Gates], Gates]


def _lstm(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    h, c = states
    i, f, z, o = (a + b for a, b in zip(x, times(0, h), strict=True))
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
    return [torch.sigmoid(o) * torch.tanh(c), c]


def _slstm(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    h, c, n, m = states
    i, f, z, o = (a + b for a, b in zip(x, times(0, h), strict=True))
    kept = F.logsigmoid(f) + m
    m = torch.where(n == 0, i, torch.maximum(i, kept)).detach()
    i_scale, f_scale = torch.exp(i - m), torch.exp((kept - m).clamp(max=60))
    c = f_scale * c + i_scale * torch.tanh(z)
    n = f_scale * n + i_scale
    return [torch.sigmoid(o) * c / n, c, n, m]


def _elman(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    return [torch.tanh(x[0] + times(0, states[0])[0])]


def _gru(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    (h,) = states
    r, z, m = times(0, h)
    z = torch.sigmoid(x[1] + z)
    m = m + more[0] if more else m
    n = torch.tanh(x[2] + torch.sigmoid(x[0] + r) * m)
    return [(1 - z) * n + z * h]


def _gru_reset_first(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    (h,) = states
    r, z = (torch.sigmoid(a + b) for a, b in zip(x[:2], times(0, h), strict=True))
    n = torch.tanh(x[2] + times(1, r * h)[0])
    return [z * h + (1 - z) * n]


def _joint_norm_lstm(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    h, c = states
    biases, gains, gain_c, b_c = more[:4], more[4:8], more[8], more[9]
    gates = _normed([a + b for a, b in zip(x, times(0, h), strict=True)])
    i, f, z, o = (g * a + b for g, a, b in zip(gates, gains, biases, strict=True))
    (c,) = _normed([torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)])
    c = c * gain_c + b_c
    return [torch.sigmoid(o) * torch.tanh(c), c]


def _layer_norm_lstm(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    h, c = states
    gains_x, gains_h, biases, gain_c, b_c = more[:4], more[4:8], more[8:12], *more[12:]
    parts = zip(_normed(x), gains_x, _normed(times(0, h)), gains_h, biases, strict=True)
    i, f, z, o = (a * g + r * k + b for a, g, r, k, b in parts)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
    return [torch.sigmoid(o) * torch.tanh(_normed([c])[0] * gain_c + b_c), c]


def _lem(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    y, z = states
    step_z, step_y, n_z = (a + b for a, b in zip(x[:3], times(0, y), strict=True))
    z = torch.lerp(z, torch.tanh(n_z), torch.sigmoid(step_z))
    n_y = torch.tanh(x[3] + times(1, z)[0])
    return [torch.lerp(y, n_y, torch.sigmoid(step_y)), z]


def _block_gru(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    (h,), (*biases, gain) = states, more
    hidden = x[0] + times(0, h)[0]
    hidden = F.silu(F.rms_norm(hidden, hidden.shape[-1:], eps=1e-6) * gain)
    r, c, u = (a + b for a, b in zip(times(1, hidden), biases, strict=True))
    k = torch.sigmoid(u - 1)
    return [k * torch.tanh(torch.sigmoid(r) * c) + (1 - k) * h]


def _sligru(x: Gates, times: Times, states: Gates, more: Gates) -> Gates:
    (h,) = states
    n, z = (a + b for a, b in zip(x, _normed(times(0, h)), strict=True))
    z = torch.sigmoid(z)
    return [z * h + (1 - z) * torch.relu(n)]


def _normed(values: Gates) -> Gates:
    """Values with mean 0 and variance 1 over the units of all of them, per head."""
    together = torch.cat(values, -1) if len(values) > 1 else values[0]
    return list(F.layer_norm(together, together.shape[-1:]).chunk(len(values), -1))


STEPS: dict[str, Step] = {
    "lstm": Step((4,), 2, _lstm),
    "slstm": Step((4,), 4, _slstm),
    "elman": Step((1,), 1, _elman),
    "gru": Step((3,), 1, _gru),
    "gru_reset_first": Step((2, 1), 1, _gru_reset_first),
    "joint_norm_lstm": Step((4,), 2, _joint_norm_lstm),
    "layer_norm_lstm": Step((4,), 2, _layer_norm_lstm),
    "lem": Step((3, 1), 2, _lem),
    "block_gru": Step((1, 3), 1, _block_gru),
    "sligru": Step((2,), 1, _sligru),
}
