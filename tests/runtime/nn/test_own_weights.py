"""What callers do with the states and the weights of a module, as they do with torch's."""

from __future__ import annotations

import copy

import pytest
import rnnc
import torch
from torch import nn
from torch.nn.utils import parametrizations

EACH = pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
DOUBLE = torch.float64


def pair(name, *sizes, **options):
    theirs = getattr(nn, name)(*sizes, **options, dtype=DOUBLE)
    ours = copy.deepcopy(theirs)
    rnnc.convert(ours, force=True)
    return ours, theirs


def assert_same_gradients(ours, theirs, run):
    results = [run(module) for module in (ours, theirs)]
    for found in zip(*results, strict=True):
        torch.testing.assert_close(*found)
    gradients = [{n: p.grad for n, p in module.named_parameters()} for module in (ours, theirs)]
    assert any(d is not None and d.any() for d in gradients[1].values())
    torch.testing.assert_close(*gradients)


@EACH
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}], ids=str)
@pytest.mark.parametrize("steps", [1, 3])
def test_states_set_in_place_where_an_episode_ends(name, options, steps):
    ours, theirs = pair(name, 4, 5, **options)
    x = torch.randn(4, steps, 3, 4, dtype=DOUBLE)

    def run(module):
        hx, results = None, []
        for part in x:
            y, hx = module(part, hx)
            results.append(y)
            for state in hx if name == "LSTM" else (hx,):
                state[:, 1] = 0
        torch.stack(results).square().sum().backward()
        return [y.detach() for y in results]

    assert_same_gradients(ours, theirs, run)


@EACH
def test_a_cells_states_set_in_place(name):
    ours, theirs = pair(f"{name}Cell", 4, 5)
    x = torch.randn(4, 3, 4, dtype=DOUBLE)

    def run(module):
        hx, results = None, []
        for part in x:
            hx = module(part, hx)
            states = hx if name == "LSTM" else (hx,)
            results.append(states[0].clone())
            if name != "RNN":  # torch's own refuses that
                for state in states:
                    state[1] = 0
        torch.stack(results).square().sum().backward()
        return [y.detach() for y in results]

    assert_same_gradients(ours, theirs, run)


@EACH
def test_torchs_list_of_weights(name):
    ours, theirs = pair(name, 4, 5, 2)
    x = torch.randn(6, 3, 4, dtype=DOUBLE)

    def run(module):
        results = [module(x)[0] for _ in range(3)]  # the third one is known
        module._flat_weights[1] = 2 * module._flat_weights[1]
        results += [module(x)[0] for _ in range(3)]
        module._flat_weights = [weight / 3 for weight in module._flat_weights]
        results.append(module(x)[0])
        module.weight_hh_l0 = nn.Parameter(torch.full_like(module.weight_hh_l0, 0.1))
        results.append(module(x)[0])
        torch.stack(results).square().sum().backward()
        return [y.detach() for y in results]

    assert_same_gradients(ours, theirs, run)


@EACH
@pytest.mark.parametrize("steps", [1, 3])
def test_a_spectral_norm_takes_as_many_iterations_as_torchs(name, steps):
    ours, theirs = pair(name, 4, 5)
    for module in (ours, theirs):
        torch.manual_seed(0)
        parametrizations.spectral_norm(module, "weight_hh_l0")
    x = torch.randn(steps, 3, 4, dtype=DOUBLE)

    def run(module):
        results = [module(x)[0] for _ in range(3)]
        torch.stack(results).square().sum().backward()
        return [y.detach() for y in results]

    assert_same_gradients(ours, theirs, run)


def test_a_list_that_was_changed_before_the_conversion():
    module, x = nn.LSTM(4, 5, dtype=DOUBLE), torch.randn(6, 3, 4, dtype=DOUBLE)
    module._flat_weights = [2 * weight.detach() for weight in module._flat_weights]
    wanted = module(x)[0].detach()
    for back in (False, True):
        rnnc.convert(module, force=True, back=back)
        torch.testing.assert_close(module(x)[0].detach(), wanted)
