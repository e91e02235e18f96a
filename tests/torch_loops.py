"""Cells against loops of plain torch: values, and gradients by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import rnnc
import torch
from torch import Tensor

Named = dict[str, Tensor]
STEPS = 40
DOUBLE: dict[str, Any] = {"dtype": torch.float64}


def calls(cell: rnnc.Cell, mean: float = 0.1, spread: float = 0.5, steps: int = STEPS) -> Named:
    """Tensors of a call that begins at the cell's own states."""
    wx = mean + spread * torch.randn(3, steps, 2, 5, len(cell.input_gates), **DOUBLE)
    return {
        "wx": wx,
        "R": torch.randn(len(cell.dense_pairs), 2, 5, 5, **DOUBLE) / 2,
        "b": torch.randn(len(cell.bias_gates), 2, 5, **DOUBLE) / 4,
        **{s.name: torch.full((3, 2, 5), s.init, **DOUBLE) for s in cell.states},
        **{p.name: p.init + torch.randn(2, 5, **DOUBLE) / 4 for p in cell.params},
        **{i.name: torch.rand(3, steps, 2, 5, **DOUBLE) for i in cell.inputs},
    }


def gate_values(cell: rnnc.Cell, tensors: Named, states: SimpleNamespace, t: int) -> Named:
    """The pre-activations of a step."""
    gates = {g.name: gate_of(cell, tensors, g.name, t) for g in cell.gates}
    for n, pair in enumerate(cell.dense_pairs):
        product = multiplied(tensors["R"][n], getattr(states, pair.source))
        gates[pair.gate] = gates[pair.gate] + product
    return gates


def gate_functions(
    cell: rnnc.Cell, tensors: Named, states: SimpleNamespace, t: int
) -> dict[str, Callable[..., Tensor]]:
    """The gates of a step as functions of what their matrix multiplies."""
    return {g.name: partial(gate_of, cell, tensors, g.name, t) for g in cell.gates}


def gate_of(
    cell: rnnc.Cell, tensors: Named, name: str, t: int, argument: Tensor | None = None
) -> Tensor:
    """The input and bias of a gate at a step, and its matrix times the argument."""
    value = torch.zeros_like(tensors["wx"][:, t, ..., 0])
    if name in cell.input_gates:
        value = value + tensors["wx"][:, t, ..., cell.input_gates.index(name)]
    if name in cell.bias_gates:
        value = value + tensors["b"][cell.bias_gates.index(name)]
    if argument is not None:
        (matrix,) = (n for n, pair in enumerate(cell.dense_pairs) if pair.gate == name)
        value = value + multiplied(tensors["R"][matrix], argument)
    return value


def multiplied(matrix: Tensor, values: Tensor) -> Tensor:
    """The products of a matrix for each head."""
    return torch.einsum("nij,bnj->bni", matrix, values)


def looped(
    cell: rnnc.Cell,
    tensors: Named,
    step: Callable[..., Any],
    gates_of: Callable[..., Mapping[str, Any]] = gate_values,
) -> Named:
    """All states over time, by a loop over steps."""
    states = SimpleNamespace(**{s.name: tensors[s.name] for s in cell.states})
    params = SimpleNamespace(**{p.name: tensors[p.name] for p in cell.params})
    constants = SimpleNamespace(**{c.name: torch.tensor(c.value, **DOUBLE) for c in cell.constants})
    over_time: dict[str, list[Tensor]] = {s.name: [] for s in cell.states}
    for t in range(tensors["wx"].shape[1]):
        inputs = {i.name: tensors[i.name][:, t] for i in cell.inputs}
        gates = SimpleNamespace(**gates_of(cell, tensors, states, t), **inputs)
        new = step(gates, states, params, constants)
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
    cell: rnnc.Cell,
    tensors: Named,
    step: Callable[..., Any],
    backend: str,
    most: float,
    gates_of: Callable[..., Mapping[str, Any]] = gate_values,
) -> Named:
    """Compare values and gradients by name with those of a loop, and return the values."""
    tensors = {name: t.requires_grad_() for name, t in tensors.items()}
    wanted, got = looped(cell, tensors, step, gates_of), scanned(cell, tensors, backend)
    seeds = {name: torch.randn_like(value) for name, value in wanted.items() if value.grad_fn}
    both = [gradients(outputs, tensors, seeds) for outputs in (wanted, got)]
    for a, b in ((wanted, got), both):
        for key, value in a.items():
            torch.testing.assert_close(b[key], value, rtol=most, atol=most, msg=key)
    return got
