"""Gradients that are sums over time lose no digit over 60,000 steps."""

from __future__ import annotations

import pytest
import rnnc
import torch

STEPS = 60_000


def error(got, exact) -> float:
    return ((got.double() - exact).norm() / exact.norm()).item()


def test_a_bias_is_a_sum_as_exact_as_torch_s(variant, draw, results):
    cell = rnnc.cells.lstm
    dim = {"block": 32, "alternating": 32}.get(variant, 250)
    inputs = draw(cell, (2, STEPS, 1, dim), torch.float32, variant)
    seeds = {"h over time": torch.randn(2, STEPS, 1, dim, device="cuda")}
    got = results(cell, inputs, seeds, variant=variant)
    # What a bias adds up is the gradient of wx, of which float32 loses nothing.
    terms = got["gradient of wx"].flatten(0, 1).permute(3, 0, 1, 2)
    exact = terms.double().sum(1)
    (name,) = (n for n in got if n == "gradient of b")
    theirs = error(terms.sum(1), exact)
    assert error(got[name], exact) <= 2 * theirs + 2 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("chosen", ["block", "alternating"])
def test_a_diagonal_weight_is_a_sum_as_exact_as_torch_s(chosen, draw, results):
    cell = rnnc.cells.indrnn
    inputs = draw(cell, (2, STEPS, 1, 32), torch.float32, chosen)
    with torch.no_grad():
        inputs.R_diag.clamp_(-0.9, 0.9)  # states stay finite
    seeds = {"h over time": torch.randn(2, STEPS, 1, 32, device="cuda")}
    got = results(cell, inputs, seeds, variant=chosen)
    h = got["h over time"]
    before = torch.cat([inputs.states[0].detach()[:, None], h[:, :-1]], 1)
    terms = got["gradient of wx"][..., 0].double() * before.double()
    exact = terms.sum((0, 1))
    theirs = error(terms.float().sum((0, 1)), exact)
    found = got["gradient of R_diag"][0]
    assert error(found, exact) <= 2 * theirs + 2 * torch.finfo(torch.float32).eps
