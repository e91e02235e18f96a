"""Cells whose step has stages, and what each of them computes, written in plain torch.

A twin gets what each gate has without its product, a function that multiplies a value by the
weights of a gate, and the states, params and inputs by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rnnc
import torch
import torch.nn.functional as F  # noqa: N812
from rnnc import (
    Gate,
    Input,
    Param,
    State,
    gate,
    largest,
    layer_norm,
    mean,
    param,
    relu,
    rms_norm,
    sigmoid,
    softmax,
    tanh,
    total,
    where,
)
from torch import Tensor

Product = Callable[[str, Tensor], Tensor]
Named = dict[str, Tensor]
#: The new states of a step, from gates without products, the products, and all other values.
Twin = Callable[[Named, Product, Named], tuple[Tensor, ...]]


@rnnc.cell
def gru_reset_first(z: Gate, r: Gate, n: Gate, h: State):
    """The GRU of Cho et al. (2014)."""
    candidate = tanh(n(sigmoid(r) * h))
    return (1 - sigmoid(z)) * candidate + sigmoid(z) * h


def _gru(x: Named, times: Product, v: Named) -> tuple[Tensor, ...]:
    h = v["h"]
    z, r = (torch.sigmoid(x[name] + times(name, h)) for name in "zr")
    candidate = torch.tanh(x["n"] + times("n", r * h))
    return ((1 - z) * candidate + z * h,)


@rnnc.cell
def norm_lstm(
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
    h: State,
    c: State,
    gain_i: Param = param(init=1.0),
    gain_f: Param = param(init=1.0),
    gain_c: Param = param(init=1.0),
    shift: Param = param(init=0.0),
):
    """Four gates that are normed together, and a norm of the cell state."""
    i, f, z, o = layer_norm((i, f, z, o), gain=(gain_i, gain_f, 1, 1), bias=(0, 1, shift, 0))
    c = sigmoid(f) * c + sigmoid(i) * tanh(z)
    return sigmoid(o) * tanh(layer_norm(c, gain_c, eps=0.01)), c


def _norm_lstm(x: Named, times: Product, v: Named) -> tuple[Tensor, ...]:
    gates = torch.cat([x[name] + times(name, v["h"]) for name in "ifzo"], -1)
    i, f, z, o = F.layer_norm(gates, gates.shape[-1:], eps=1e-5).chunk(4, -1)
    i, f, z = i * v["gain_i"], f * v["gain_f"] + 1, z + v["shift"]
    c = torch.sigmoid(f) * v["c"] + torch.sigmoid(i) * torch.tanh(z)
    normed = F.layer_norm(c, c.shape[-1:], eps=0.01) * v["gain_c"]
    return torch.sigmoid(o) * torch.tanh(normed), c


@rnnc.cell
def deep(
    a: Gate,
    h: State,
    m: State,
    x: Input,
    w: Param,
    b: Gate = gate(input=False),
    d: Gate = gate(recurrent="diagonal"),
    e: Gate = gate(input=False, bias=False),
):
    """Three further exchanges, a diagonal gate that is called, and reductions of every kind."""
    first = tanh(b(relu(a) * x + largest(h) * m))
    inner = softmax(first * w) + d(mean(first) * h)
    second = e(rms_norm(inner) / (1 + total(m * m)))
    return where(second > x, tanh(second), 0.5 * h), 0.9 * m + 0.1 * tanh(first)


def _deep(x: Named, times: Product, v: Named) -> tuple[Tensor, ...]:
    h, m = v["h"], v["m"]
    a = x["a"] + times("a", h)
    first = torch.tanh(x["b"] + times("b", a.relu() * v["x"] + h.amax(-1, True) * m))
    d = x["d"] + times("d", first.mean(-1, True) * h)
    inner = torch.softmax(first * v["w"], -1) + d
    normed = inner / (inner.square().mean(-1, True) + 1e-6).sqrt()
    second = x["e"] + times("e", normed / (1 + (m * m).sum(-1, True)))
    return torch.where(second > v["x"], second.tanh(), 0.5 * h), 0.9 * m + 0.1 * first.tanh()


TWINS: dict[str, tuple[rnnc.Cell, Twin]] = {
    "gru": (gru_reset_first, _gru),
    "norm_lstm": (norm_lstm, _norm_lstm),
    "deep": (deep, _deep),
}


def loop(cell: rnnc.Cell, twin: Twin, given: Any, **options: Any) -> dict[str, Tensor]:
    """What `Inputs.scan` of the conftest returns, by a loop over steps and a twin.

    Args:
        cell: the cell.
        twin: its step.
        given: the tensors of the call.
        **options: `lengths`, `reset` and `reverse` of the call.
    """
    B, T = given.wx.shape[:2]
    lengths = options.get("lengths", torch.full((B,), T))
    reset = options.get("reset", torch.zeros(B, T, dtype=torch.bool))
    products = _products(cell, given)
    states = start = {s.name: value for s, value in zip(cell.states, given.states, strict=True)}
    steps: list[Named] = [states] * T
    for t in reversed(range(T)) if options.get("reverse") else range(T):
        x = {g.name: torch.zeros_like(given.wx[:, 0, ..., 0]) for g in cell.gates}
        for name, column in zip(cell.input_gates, given.wx[:, t].unbind(-1), strict=True):
            x[name] = x[name] + column
        for place, name in enumerate(cell.bias_gates):
            x[name] = x[name] + given.b[place]
        fresh = reset[:, t, None, None]
        before = {n: torch.where(fresh, start[n] * 0, value) for n, value in states.items()}
        inputs = {name: value[:, t] for name, value in given.inputs.items()}
        new = twin(x, products, {**before, **given.params, **inputs})
        runs = (t < lengths)[:, None, None]
        states = {
            name: torch.where(runs, value, states[name])
            for name, value in zip(before, new, strict=True)
        }
        steps[t] = {name: torch.where(runs, value, 0) for name, value in states.items()}
    over_time = {f"{n} over time": torch.stack([s[n] for s in steps], 1) for n in states}
    return over_time | {f"{name} last": value for name, value in states.items()}


def _products(cell: rnnc.Cell, given: Any) -> Product:
    dense = {p.gate: given.R[i] for i, p in enumerate(cell.dense_pairs)}
    diagonal = {p.gate: given.R_diag[i] for i, p in enumerate(cell.diagonal_pairs)}

    def times(name: str, value: Tensor) -> Tensor:
        if name in dense:
            return (dense[name] @ value.unsqueeze(-1)).squeeze(-1)
        return diagonal[name] * value

    return times
