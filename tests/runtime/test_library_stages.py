"""The library's cells with stages against loops of plain torch: values, and gradients by name."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
import rnnc
import torch

NAMES = [name for name in rnnc.cells.names() if rnnc.cells.get(name).has_stages]
BATCH, STEPS, HEADS, UNITS = 3, 7, 2, 5
DOUBLE = {"dtype": torch.float64}


def calls(cell):
    """Tensors of a call that begins at random states."""
    tensors = {
        "wx": torch.randn(BATCH, STEPS, HEADS, UNITS, len(cell.input_gates), **DOUBLE),
        "R": torch.randn(len(cell.dense_pairs), HEADS, UNITS, UNITS, **DOUBLE) / 2,
        "b": torch.randn(len(cell.bias_gates), HEADS, UNITS, **DOUBLE),
        **{s.name: torch.randn(BATCH, HEADS, UNITS, **DOUBLE) for s in cell.states},
        **{p.name: p.init + torch.randn(HEADS, UNITS, **DOUBLE) for p in cell.params},
        **{i.name: torch.rand(BATCH, STEPS, HEADS, UNITS, **DOUBLE) for i in cell.inputs},
    }
    if cell.name == "layer_norm_slstm":  # n is positive after the first step, 0 before it
        tensors["n"] = tensors["n"].abs()
        tensors["n"][0] = tensors["c"][0] = 0
    return {name: tensor.requires_grad_() for name, tensor in tensors.items()}


def gate_of(cell, tensors, name, t, argument=None):
    """A gate at a step: its input and bias, and its matrix times the argument."""
    value = torch.zeros(BATCH, HEADS, UNITS, **DOUBLE)
    if name in cell.input_gates:
        value = value + tensors["wx"][:, t, ..., cell.input_gates.index(name)]
    if name in cell.bias_gates:
        value = value + tensors["b"][cell.bias_gates.index(name)]
    (matrix,) = [n for n, pair in enumerate(cell.dense_pairs) if pair.gate == name] or [None]
    assert (matrix is None) == (argument is None)
    if argument is not None:
        value = value + torch.einsum("nij,bnj->bni", tensors["R"][matrix], argument)
    return value


def looped(cell, tensors, step):
    """All states over time, by a loop over steps."""
    states = SimpleNamespace(**{s.name: tensors[s.name] for s in cell.states})
    wide = (BATCH, HEADS, UNITS)
    params = SimpleNamespace(**{p.name: tensors[p.name].expand(wide) for p in cell.params})
    constants = SimpleNamespace(**{c.name: c.value for c in cell.constants})
    over_time = {s.name: [] for s in cell.states}
    for t in range(STEPS):
        gates = {g.name: partial(gate_of, cell, tensors, g.name, t) for g in cell.gates}
        gates |= {i.name: tensors[i.name][:, t] for i in cell.inputs}
        new = step(SimpleNamespace(**gates), states, params, constants)
        states = SimpleNamespace()
        for name, value in zip(over_time, new if isinstance(new, tuple) else [new], strict=True):
            over_time[name].append(value)
            setattr(states, name, value)
    return {name: torch.stack(values, 1) for name, values in over_time.items()}


def scanned(cell, tensors, backend):
    """All states over time, by `rnnc.scan`."""
    over_time, _ = rnnc.scan(
        cell,
        tensors["wx"],
        tensors["R"],
        tensors["b"] if cell.bias_gates else None,
        [tensors[s.name] for s in cell.states],
        params={p.name: tensors[p.name] for p in cell.params},
        inputs={i.name: tensors[i.name] for i in cell.inputs} or None,
        backend=backend,
    )
    return {s.name: value for s, value in zip(cell.states, over_time, strict=True)}


def gradients(outputs, tensors, seeds):
    total = sum((outputs[name] * seeds[name]).sum() for name in seeds)
    found = torch.autograd.grad(total, tensors.values(), allow_unused=True)
    return {
        name: torch.zeros_like(tensors[name]) if d is None else d
        for name, d in zip(tensors, found, strict=True)
    }


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_cell_equals_a_loop_of_torch(name, backend, stage_steps):
    cell, tensors = rnnc.cells.get(name), calls(rnnc.cells.get(name))
    wanted = looped(cell, tensors, stage_steps.STEPS[name])
    got = scanned(cell, tensors, backend)
    seeds = {name: torch.randn_like(value) for name, value in wanted.items()}
    both = [gradients(outputs, tensors, seeds) for outputs in (wanted, got)]
    for a, b in ((wanted, got), both):
        for key, value in a.items():
            torch.testing.assert_close(b[key], value, rtol=1e-9, atol=1e-9, msg=key)


def test_every_cell_with_stages_has_a_loop(stage_steps):
    assert sorted(stage_steps.STEPS) == NAMES
    assert len(NAMES) >= 30
