"""`rnnc.nn.LSTM`, `GRU` and `RNN` against torch's modules with the same weights."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import rnnc
import torch
from rnnc.runtime.nn import own
from torch import nn

KINDS = {
    "LSTM": {},
    "GRU": {},
    "RNN": {"nonlinearity": "tanh"},
    "RNN relu": {"nonlinearity": "relu"},
}
# Layers, both directions, batch first, biases.
OPTIONS = [
    (1, False, False, True),
    (1, True, True, False),
    (2, False, True, False),
    (2, True, False, True),
    (3, False, False, True),
]
EACH = pytest.mark.parametrize("kind", KINDS)


def pair(kind, *sizes, **options):
    """A module of ours and torch's with the same weights."""
    name, options = kind.split()[0], KINDS[kind] | options
    theirs, ours = getattr(nn, name)(*sizes, **options), getattr(rnnc.nn, name)(*sizes, **options)
    assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
    return ours, theirs


def states_of(kind, *shape, dtype=torch.float64):
    first, second = torch.randn(2, *shape, dtype=dtype)
    return (first, second) if kind == "LSTM" else first


@pytest.fixture
def by_kernels(monkeypatch):
    """Torch's own forward must not run."""

    def refuse(*_):
        raise AssertionError("torch's own forward ran")

    monkeypatch.setattr(own, "run_torch", refuse)


@EACH
@pytest.mark.parametrize("steps", [1, 6])
def test_all_options(kind, steps, by_kernels, torch_twins):
    for layers, both, first, bias in OPTIONS:
        options = {"bidirectional": both, "batch_first": first, "bias": bias}
        ours, theirs = pair(kind, 5, 6, layers, **options, dtype=torch.float64)
        x = torch.randn((3, steps, 5) if first else (steps, 3, 5), dtype=torch.float64)
        hx = states_of(kind, layers * (1 + both), 3, 6)
        for _ in range(3):  # the third comes again
            torch_twins.assert_same(ours, theirs, x, hx)
        torch_twins.assert_same(ours, theirs, x)
        alone = torch.randn(steps, 5, dtype=torch.float64)
        torch_twins.assert_same(ours, theirs, alone, states_of(kind, layers * (1 + both), 6))
        torch_twins.assert_same(ours, theirs, alone)


@EACH
def test_float32_without_gradients(kind, by_kernels):
    ours, theirs = pair(kind, 8, 16, 2, bidirectional=True)
    x = torch.randn(9, 4, 8)
    with torch.inference_mode():
        for _ in range(3):
            torch.testing.assert_close(ours(x), theirs(x))


@EACH
def test_frozen_weights(kind, by_kernels, torch_twins):
    ours, theirs = pair(kind, 3, 4, dtype=torch.float64)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    for wanted in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        for module in (ours, theirs):
            for name, parameter in module.named_parameters():
                parameter.requires_grad_(name == wanted)
        for given in (x, x[:1]):
            grads = [torch_twins.named(module, given)[f"d {wanted}"] for module in (ours, theirs)]
            torch.testing.assert_close(*grads)


def test_an_input_without_order_in_memory(by_kernels, torch_twins):
    ours, theirs = pair("LSTM", 6, 4, batch_first=True, dtype=torch.float64)
    x = torch.randn(6, 7, 12, dtype=torch.float64)[:, :, ::2].transpose(0, 1)
    assert not x.is_contiguous()
    hx = tuple(torch.randn(1, 4, 7, dtype=torch.float64).transpose(1, 2) for _ in range(2))
    torch_twins.assert_same(ours, theirs, x, hx)


@EACH
def test_state_dicts_go_both_ways(kind):
    ours, theirs = pair(kind, 5, 6, 2, bidirectional=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    ours.reset_parameters()
    theirs.load_state_dict(ours.state_dict())
    assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))
    assert len(ours.all_weights) == 4
    assert ours.all_weights[1][0] is ours.weight_ih_l0_reverse
    assert repr(ours) == repr(theirs)
    places = [p.data_ptr() for p in ours.parameters()]
    assert ours.flatten_parameters() is None
    assert places == [p.data_ptr() for p in ours.parameters()]


def test_the_class_is_ours_and_torchs():
    ours = rnnc.nn.LSTM(3, 4)
    assert isinstance(ours, nn.LSTM)
    assert type(ours).__module__ == "rnnc.nn"
    assert rnnc.nn.RNN(3, 4, 2, "relu", False).nonlinearity == "relu"
    with pytest.raises(ValueError, match="hidden_size must be greater than zero"):
        rnnc.nn.GRU(3, 0)
    with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM"):
        rnnc.nn.GRU(3, 4, proj_size=2)


@EACH
def test_copies_compute_the_same(kind, torch_twins):
    ours, _ = pair(kind, 5, 6, 2)
    x = torch.randn(4, 3, 5)
    for _ in range(3):
        wanted = ours(x)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    copies = [copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))]
    for other in (*copies, torch.load(file, weights_only=False)):
        assert type(other) is type(ours)
        assert all(map(torch.equal, *(torch_twins.named(m, x).values() for m in (ours, other))))
        with torch.no_grad():
            other.weight_hh_l0.zero_()
    torch.testing.assert_close(ours(x), wanted, rtol=0, atol=0)


def test_weights_that_change_between_calls(by_kernels, torch_twins):
    ours, theirs = pair("GRU", 3, 4, dtype=torch.float64)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    for change in range(5):
        torch_twins.assert_same(ours, theirs, x)
        for module in (ours, theirs):
            with torch.no_grad():
                module.weight_hh_l0.mul_(0.5)
                module.bias_hh_l0.data += change
    for module in (ours, theirs):
        module.weight_ih_l0 = nn.Parameter(torch.ones(12, 3, dtype=torch.float64))
    torch_twins.assert_same(ours, theirs, x)
    other = {name: torch.randn_like(p) for name, p in theirs.named_parameters()}
    torch.testing.assert_close(
        *(torch.func.functional_call(module, other, (x,)) for module in (ours, theirs))
    )
    torch_twins.assert_same(ours, theirs, x)


def test_a_parametrized_weight(by_kernels, torch_twins):
    ours, theirs = pair("LSTM", 3, 4, dtype=torch.float64)
    for module in (ours, theirs):
        nn.utils.parametrizations.weight_norm(module, "weight_hh_l0")
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    for _ in range(2):
        torch_twins.assert_same(ours, theirs, x)


def test_dropout_between_layers(by_kernels):
    ours, theirs = pair("LSTM", 4, 16, 2, dropout=0.5)
    x = torch.randn(8, 10, 4)
    torch.manual_seed(0)
    first, second = ours(x)[0], ours(x)[0]
    assert not torch.equal(first, second)
    # The same distribution: equal means over many draws, within four standard errors.
    draws = [torch.stack([module(x)[0].detach() for _ in range(40)]) for module in (ours, theirs)]
    mean, other = (draw.mean(0) for draw in draws)
    error = ((draws[0].var(0) + draws[1].var(0)) / 40).sqrt()
    assert ((mean - other).abs() < 6 * error + 1e-6).all()
    torch.testing.assert_close(draws[0].var(0).mean(), draws[1].var(0).mean(), rtol=0.15, atol=0)
    ours.eval()
    theirs.eval()
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x))
