"""The library's neurons against loops of plain torch: values, spikes, and gradients by name."""

from __future__ import annotations

import pytest
import rnnc

# Pre-activations that make some units spike, and others not.
DRIVES = {"izhikevich": (6, 8), "exponential_lif": (80, 60), "hodgkin_huxley": (10, 20)}
SPIKES = {
    *("adaptive_lif", "delayed_lif", "exponential_lif", "hodgkin_huxley", "izhikevich", "lif"),
    *("lif_to_zero", "rlif_atan", "rlif_fast_sigmoid", "rlif_triangle", "synaptic_lif"),
}
NAMES = sorted({*SPIKES, "cfc", "fitzhugh_nagumo", "ltc"})


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_neuron_equals_a_loop_of_torch(name, backend, neuron_steps, torch_loops):
    cell = rnnc.cells.get(name)
    tensors = torch_loops.calls(cell, *DRIVES.get(name, ()))
    # Hodgkin and Huxley's rates have a series near 0.
    most = 1e-6 if name == "hodgkin_huxley" else 1e-10
    step = neuron_steps.STEPS[name]
    got = torch_loops.check_against_loop(cell, tensors, step, backend, most)
    if name in SPIKES:
        spikes = got[cell.states[0].name]
        assert set(spikes.unique().tolist()) == {0, 1}
        assert 0.005 < spikes.mean() < 0.7


def test_every_neuron_has_a_loop(neuron_steps):
    assert list(NAMES) == sorted(neuron_steps.STEPS)
    assert {
        n for n in rnnc.cells.names() if "heaviside" in " ".join(rnnc.cells.get(n).equations())
    } == SPIKES
