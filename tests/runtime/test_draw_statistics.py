"""What calls draw, by statistics: moments, and independence over every axis, at 5 sigma."""

from __future__ import annotations

import math

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State, bernoulli, gate, normal, uniform
from rnnc.runtime.module import given as given_module

T, B, HEADS, DIM, LAYERS = 24, 8, 2, 16, 2
SIGMAS = 5
# Axes of what several calls draw: calls, layers * directions, T, B, heads, units.
AXES = "call", "direction of a layer", "step", "row", "head", "unit"
# Mean and variance.
MOMENTS = {"keep": (0.2, 0.16), "u": (1.0, 4 / 12), "xi": (-1.0, 0.25)}


@rnnc.cell
def shown(
    h: State,
    k: State,
    e: State,
    *,
    g: Gate = gate(recurrent=False, bias=False),
    keep: Input = bernoulli(0.2),
    u: Input = uniform(0, 2),
    xi: Input = normal(-1, 0.5),
):
    """Its states are what was drawn."""
    return keep + 0 * g, u + 0 * g, xi + 0 * g


def drawn_by_calls(dtype=torch.float32, bidirectional=True):
    """What four calls show of the last layer, by name: (calls, directions, T, B, N, D)."""
    torch.manual_seed(0)
    rnn = rnnc.RNN(
        *(shown, 3, HEADS * DIM),
        heads=HEADS,
        num_layers=LAYERS,
        bidirectional=bidirectional,
        dtype=dtype,
    )
    x, directions = torch.zeros(T, B, 3, dtype=dtype), 2 if bidirectional else 1
    found = {name: [] for name in ("h", "k", "e")}
    for _ in range(4):
        every = rnn(x, all_states=True)[2]
        for name, states in every.items():
            parts = states.view(T, B, directions, HEADS, DIM).permute(2, 0, 1, 3, 4)
            found[name].append(parts.double())
    return {
        name: torch.stack(found[state])
        for name, state in zip(MOMENTS, ("h", "k", "e"), strict=True)
    }


def check_moments(values, mean, variance, fourth):
    """Mean and variance of independent numbers, each within 5 sigma of what it should be."""
    count = values.numel()
    assert abs(values.mean() - mean) <= SIGMAS * math.sqrt(variance / count)
    spread = math.sqrt((fourth - variance**2) / count)
    assert abs(((values - mean) ** 2).mean() - variance) <= SIGMAS * spread + 1e-12


def check_independence(values, mean, variance):
    """No axis has neighbours, or a first and a last, that are correlated."""
    scaled, found = (values.detach() - mean) / math.sqrt(variance), []
    for axis, name in enumerate(AXES):
        size = scaled.shape[axis]
        for shift in {1, size - 1} if size > 1 else ():
            pairs = scaled.narrow(axis, 0, size - shift), scaled.narrow(axis, shift, size - shift)
            products = pairs[0] * pairs[1]
            if abs(products.mean()) > SIGMAS / math.sqrt(products.numel()):
                found.append(name)
    assert not found


def fourth_moment(name):
    mean, variance = MOMENTS[name]
    if name == "keep":
        return (1 - mean) * mean**4 + mean * (1 - mean) ** 4
    return 1.8 * variance**2 if name == "u" else 3 * variance**2


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_and_independence(name):
    values = drawn_by_calls()[name]
    check_moments(values, *MOMENTS[name], fourth_moment(name))
    check_independence(values, *MOMENTS[name])
    if name == "keep":
        assert set(values.unique().tolist()) == {0, 1}


def test_two_bytes_meet_the_probability_too():
    values = drawn_by_calls(torch.bfloat16)["keep"]
    assert set(values.unique().tolist()) == {0, 1}
    check_moments(values, *MOMENTS["keep"], fourth_moment("keep"))


def test_different_inputs_and_layers_are_independent(monkeypatch):
    """A lower layer is not seen in the output: what is drawn for it is noted."""
    draw, noted = given_module.draws_of_module, []

    def noting(*call):
        noted.append(draw(*call))
        return noted[-1]

    monkeypatch.setattr(given_module, "draws_of_module", noting)
    drawn_by_calls()
    found = {n: torch.stack([each[n].double() for each in noted]) for n in MOMENTS}
    for name, values in found.items():
        check_independence(values, *MOMENTS[name])
        assert values.shape == (4, 2 * LAYERS, T, B, HEADS, DIM)
    for one, other in (("keep", "u"), ("u", "xi"), ("xi", "keep")):
        pair = [(found[n] - MOMENTS[n][0]) / math.sqrt(MOMENTS[n][1]) for n in (one, other)]
        product = pair[0] * pair[1]
        assert abs(product.mean()) <= SIGMAS / math.sqrt(product.numel())


@pytest.mark.parametrize(
    ("fault", "axis"),
    [
        (lambda t: t[:1].expand_as(t), "direction of a layer"),
        (lambda t: t[:, :1].expand_as(t), "step"),
        (lambda t: t[:, :, :, :1].expand_as(t), "head"),
    ],
)
def test_a_draw_that_is_shared_is_noticed(fault, axis, monkeypatch):
    """A planted fault: both directions share a draw, or all steps, or all heads."""
    draw = given_module.draws_of_module
    shared = lambda *call: {name: fault(t) for name, t in draw(*call).items()}  # noqa: E731
    monkeypatch.setattr(given_module, "draws_of_module", shared)
    with pytest.raises(AssertionError, match=axis):
        check_independence(drawn_by_calls()["xi"], *MOMENTS["xi"])
