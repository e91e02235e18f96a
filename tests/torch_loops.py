"""Cells against loops of plain torch: values, and gradients by name."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import rnnc
import torch
from torch import Tensor

Named = dict[str, Tensor]
STEPS = 40
DOUBLE: dict[str, Any] = {"dtype": torch.float64}


def calls(cell: rnnc.Cell, mean: float = 0.1, spread: float = 0.5) -> Named:
    """Tensors of a call that begins at the cell's own states."""
    wx = mean + spread * torch.randn(3, STEPS, 2, 5, len(cell.input_gates), **DOUBLE)
    return {
        "wx": wx,
        "R": torch.randn(len(cell.dense_pairs), 2, 5, 5, **DOUBLE) / 2,
        "b": torch.randn(len(cell.bias_gates), 2, 5, **DOUBLE) / 4,
        **{s.name: torch.full((3, 2, 5), s.init, **DOUBLE) for s in cell.states},
        **{p.name: p.init + torch.randn(2, 5, **DOUBLE) / 4 for p in cell.params},
        **{i.name: torch.rand(3, STEPS, 2, 5, **DOUBLE) for i in cell.inputs},
    }


def looped(cell: rnnc.Cell, tensors: Named, step: Callable[..., Any]) -> Named:
    """All states over time, by a loop over steps."""
    states = SimpleNamespace(**{s.name: tensors[s.name] for s in cell.states})
    params = SimpleNamespace(**{p.name: tensors[p.name] for p in cell.params})
    constants = SimpleNamespace(**{c.name: torch.tensor(c.value, **DOUBLE) for c in cell.constants})
    over_time: dict[str, list[Tensor]] = {s.name: [] for s in cell.states}
    for t in range(STEPS):
        gates = {g: tensors["wx"][:, t, ..., n] for n, g in enumerate(cell.input_gates)}
        for n, gate in enumerate(cell.bias_gates):
            gates[gate] = gates[gate] + tensors["b"][n]
        for n, pair in enumerate(cell.dense_pairs):
            read = getattr(states, pair.source)
            gates[pair.gate] = gates[pair.gate] + torch.einsum(
                "nij,bnj->bni", tensors["R"][n], read
            )
        gates |= {i.name: tensors[i.name][:, t] for i in cell.inputs}
        new = step(SimpleNamespace(**gates), states, params, constants)
        for name, value in zip(over_time, new if isinstance(new, tuple) else [new], strict=True):
            over_time[name].append(value)
            setattr(states, name, value)
    return {name: torch.stack(values, 1) for name, values in over_time.items()}


def scanned(cell: rnnc.Cell, tensors: Named, backend: str) -> Named:
    """All states over time, by `rnnc.scan`."""
    over_time, _ = rnnc.scan(
        cell,
        tensors["wx"],
        tensors["R"] if cell.dense_pairs else None,
        tensors["b"] if cell.bias_gates else None,
        [tensors[s.name] for s in cell.states],
        params={p.name: tensors[p.name] for p in cell.params},
        inputs={i.name: tensors[i.name] for i in cell.inputs} or None,
        backend=backend,
    )
    return {s.name: value for s, value in zip(cell.states, over_time, strict=True)}


def gradients(outputs: Named, tensors: Named, seeds: Named) -> Named:
    """Gradients by name of sums of outputs; zero where there is none."""
    total = sum((outputs[name] * seeds[name]).sum() for name in seeds)
    found = torch.autograd.grad(total, list(tensors.values()), allow_unused=True)
    return {
        name: torch.zeros_like(tensors[name]) if d is None else d
        for name, d in zip(tensors, found, strict=True)
    }


def check_against_loop(
    cell: rnnc.Cell, tensors: Named, step: Callable[..., Any], backend: str, most: float
) -> Named:
    """Compare values and gradients by name with those of a loop, and return the values."""
    tensors = {name: t.requires_grad_() for name, t in tensors.items()}
    wanted, got = looped(cell, tensors, step), scanned(cell, tensors, backend)
    seeds = {name: torch.randn_like(value) for name, value in wanted.items() if value.grad_fn}
    both = [gradients(outputs, tensors, seeds) for outputs in (wanted, got)]
    for a, b in ((wanted, got), both):
        for key, value in a.items():
            torch.testing.assert_close(b[key], value, rtol=most, atol=most, msg=key)
    return got
