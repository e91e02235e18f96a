"""Weights of a module that are not parameters: parametrized ones work, missing ones are named."""

from __future__ import annotations

import copy
import io

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, param, tanh
from torch import nn
from torch.func import functional_call
from torch.nn.utils import parametrizations, parametrize, prune
from torch.nn.utils import weight_norm as old_weight_norm

NAMES = ["weight_ih", "weight_hh", "weight_hd", "bias", "w"]


@rnnc.cell
def odd(
    h: State,
    c: State,
    *,
    a: Gate = gate(source="c"),
    b: Gate = gate(input=False, recurrent="diagonal"),
    w: Param = param(0.5),
):
    """Has a weight of every kind."""
    return tanh(a + w * b), h * w


class Doubled(nn.Module):
    """A parametrization of one's own."""

    def forward(self, original):
        return 2 * original

    def right_inverse(self, value):
        return value / 2


def drop(module, name):
    """What weight drop does: a plain tensor in the place of a parameter."""
    raw = module._parameters.pop(name)
    module.register_parameter("raw", raw)
    setattr(module, name, raw * 1)


def replicate(module):
    """What `nn.DataParallel` does for each of its devices."""
    replica = module._replicate_for_data_parallel()
    for key, value in module._parameters.items():
        setattr(replica, key, value * 1)
    return replica


SAME = {
    "parametrization": lambda m, n: parametrize.register_parametrization(m, n, Doubled()),
    "weight_norm": parametrizations.weight_norm,
    "old weight_norm": old_weight_norm,
    "prune": prune.identity,
    "drop": drop,
}


def module(backend="auto", layers=2):
    rnn = rnnc.RNN(odd, 4, 8, heads=2, num_layers=layers, backend=backend, dtype=torch.float64)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return rnn


def run(rnn, x):
    """Every output and every gradient, by name."""
    y, last = rnn(x)
    seeds = torch.arange(y.numel(), dtype=y.dtype).view(y.shape).cos()
    named = dict(rnn.named_parameters())
    loss = (y * seeds).sum() + sum(s.square().sum() for s in last)
    found = torch.autograd.grad(loss, list(named.values()))
    return {"y": y.detach()} | dict(zip(named, found, strict=True))


def check_close(got, wanted):
    assert got.keys() == wanted.keys()
    for key in wanted:
        torch.testing.assert_close(got[key], wanted[key], msg=lambda text, key=key: f"{key} {text}")


@pytest.mark.parametrize("kind", SAME)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", [0, 1])
def test_what_stands_for_a_weight_is_the_weight(kind, name, layer):
    rnn = module()
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    wanted = rnn(x)[0]
    twin = copy.deepcopy(rnn)
    twin.backend = "reference"
    for each in (rnn, twin):
        SAME[kind](each, f"{name}_l{layer}")
    torch.testing.assert_close(rnn(x)[0], wanted)
    check_close(run(rnn, x), run(twin, x))


@pytest.mark.parametrize("name", NAMES)
def test_spectral_norm_and_orthogonal(name):
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    kinds = [parametrizations.spectral_norm]
    if name not in ("weight_hd", "bias"):  # torch makes matrices of the last two axes alone
        kinds.append(parametrizations.orthogonal)
    for kind in kinds:
        rnn = module()
        kind(rnn, f"{name}_l1")
        rnn.eval()  # spectral_norm iterates while it trains
        twin = copy.deepcopy(rnn)
        twin.backend = "reference"
        check_close(run(rnn, x), run(twin, x))


def test_copies_and_state_dicts_of_parametrized_modules():
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    rnn = module()
    parametrizations.weight_norm(rnn, "weight_hh_l0")
    parametrize.register_parametrization(rnn, "bias_l1", Doubled())
    other = copy.deepcopy(rnn)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_().add_(1)
    file = io.BytesIO()
    torch.save(rnn.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    check_close(run(other, x), run(rnn, x))


def test_drawing_anew_what_is_no_parameter():
    rnn = module(layers=1)
    parametrize.register_parametrization(rnn, "weight_hh_l0", Doubled())
    prune.identity(rnn, "bias_l0")
    rnn.reset_parameters()
    for matrix in rnn.weight_hh_l0.split(4):
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(4, dtype=torch.float64))
    assert not rnn.bias_l0.any()
    drop(rnn, "weight_hd_l0")
    with pytest.raises(rnnc.TensorError, match="weight_hd_l0\n  found:  a weight that is no param"):
        rnn.reset_parameters()


def test_replicas_of_data_parallel():
    rnn = module()
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    assert torch.equal(replicate(rnn)(x)[0], rnn(x)[0])


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_functional_call(backend):
    rnn = module(backend)
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    given = {k: (2 * p).detach().requires_grad_() for k, p in rnn.named_parameters()}
    y, _ = functional_call(rnn, given, (x,))
    other = copy.deepcopy(rnn)
    other.load_state_dict(given)
    check_close(
        dict(zip(given, torch.autograd.grad(y.sum(), list(given.values())), strict=True)),
        dict(
            zip(
                given,
                torch.autograd.grad(other(x)[0].sum(), list(other.parameters())),
                strict=True,
            )
        ),
    )


@pytest.mark.parametrize(
    "name",
    [
        "weight_hh_l1",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("weight_ih_l0", "bias_l0")),
    ],
)
def test_compiled(name):
    torch._dynamo.reset()
    rnn = module()
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    parametrize.register_parametrization(rnn, name, Doubled())
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    wanted = run(rnn, x)
    y, last = compiled(x)
    seeds = torch.arange(y.numel(), dtype=y.dtype).view(y.shape).cos()
    loss = (y * seeds).sum() + sum(s.square().sum() for s in last)
    found = torch.autograd.grad(loss, list(rnn.parameters()))
    names = [k for k, _ in rnn.named_parameters()]
    check_close({"y": y.detach()} | dict(zip(names, found, strict=True)), wanted)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_a_weight_that_is_missing_or_of_another_shape(name, backend):
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    rnn = module(backend)
    setattr(rnn, f"{name}_l1", None)
    with pytest.raises(rnnc.TensorError, match=f"{name}_l1\n  found:  nothing\n  wanted: a tensor"):
        rnn(x)
    setattr(rnn, f"{name}_l1", nn.Parameter(torch.zeros(3)))
    with pytest.raises(rnnc.TensorError, match=rf"{name}_l1\n  found:  shape \(3,\)"):
        rnn(x)
    delattr(rnn, f"{name}_l1")
    with pytest.raises(rnnc.TensorError, match=f"{name}_l1\n  found:  nothing"):
        rnn(x)
