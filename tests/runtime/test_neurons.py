"""The library's neurons against loops of plain torch: values, spikes, and gradients by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import rnnc
import torch

# Pre-activations that make some units spike, and others not.
DRIVES = {"izhikevich": (6, 8), "exponential_lif": (80, 60), "hodgkin_huxley": (10, 20)}
SPIKES = {
    *("adaptive_lif", "delayed_lif", "exponential_lif", "hodgkin_huxley", "izhikevich", "lif"),
    *("lif_to_zero", "rlif_atan", "rlif_fast_sigmoid", "rlif_triangle", "synaptic_lif"),
}
NAMES = sorted({*SPIKES, "cfc", "fitzhugh_nagumo", "ltc"})
STEPS = 40
DOUBLE = {"dtype": torch.float64}


def calls(cell):
    """Tensors of a call that begins at the cell's own states."""
    mean, spread = DRIVES.get(cell.name, (0.1, 0.5))
    wx = mean + spread * torch.randn(3, STEPS, 2, 5, len(cell.input_gates), **DOUBLE)
    return {
        "wx": wx,
        "R": torch.randn(len(cell.dense_pairs), 2, 5, 5, **DOUBLE) / 2,
        "b": torch.randn(len(cell.bias_gates), 2, 5, **DOUBLE) / 4,
        **{s.name: torch.full((3, 2, 5), s.init, **DOUBLE) for s in cell.states},
        **{p.name: p.init + torch.randn(2, 5, **DOUBLE) / 4 for p in cell.params},
        **{i.name: torch.rand(3, STEPS, 2, 5, **DOUBLE) for i in cell.inputs},
    }


def looped(cell, tensors, step):
    """All states over time, by a loop over steps."""
    states = SimpleNamespace(**{s.name: tensors[s.name] for s in cell.states})
    params = SimpleNamespace(**{p.name: tensors[p.name] for p in cell.params})
    constants = SimpleNamespace(**{c.name: torch.tensor(c.value, **DOUBLE) for c in cell.constants})
    over_time = {s.name: [] for s in cell.states}
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


def scanned(cell, tensors, backend):
    """All states over time, by `rnnc.scan`."""
    over_time, _ = rnnc.scan(
        cell,
        tensors["wx"],
        tensors["R"] if cell.dense_pairs else None,
        tensors["b"],
        [tensors[s.name] for s in cell.states],
        params={p.name: tensors[p.name] for p in cell.params},
        inputs={i.name: tensors[i.name] for i in cell.inputs} or None,
        backend=backend,
    )
    return {s.name: value for s, value in zip(cell.states, over_time, strict=True)}


def gradients(outputs, tensors, seeds):
    total = sum((outputs[name] * seeds[name]).sum() for name in seeds)
    found = torch.autograd.grad(total, list(tensors.values()), allow_unused=True)
    return {
        name: torch.zeros_like(tensors[name]) if d is None else d
        for name, d in zip(tensors, found, strict=True)
    }


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_neuron_equals_a_loop_of_torch(name, backend, neuron_steps):
    cell = rnnc.cells.get(name)
    tensors = {name: t.requires_grad_() for name, t in calls(cell).items()}
    wanted = looped(cell, tensors, neuron_steps.STEPS[name])
    got = scanned(cell, tensors, backend)
    if name in SPIKES:
        spikes = got[cell.states[0].name]
        assert set(spikes.unique().tolist()) == {0, 1}
        assert 0.005 < spikes.mean() < 0.7
    seeds = {name: torch.randn_like(value) for name, value in wanted.items()}
    both = [gradients(outputs, tensors, seeds) for outputs in (wanted, got)]
    # Hodgkin and Huxley's rates have a series near 0.
    most = 1e-6 if name == "hodgkin_huxley" else 1e-10
    for a, b in ((wanted, got), both):
        for key, value in a.items():
            torch.testing.assert_close(b[key], value, rtol=most, atol=most, msg=key)


def test_every_neuron_has_a_loop(neuron_steps):
    assert list(NAMES) == sorted(neuron_steps.STEPS)
    assert {
        n for n in rnnc.cells.names() if "heaviside" in " ".join(rnnc.cells.get(n).equations())
    } == SPIKES
