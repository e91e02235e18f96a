"""Both directions of a layer as one call of twice the heads: what two calls give."""

from __future__ import annotations

import copy

import pytest
import rnnc
import torch
from rnnc.runtime.cpu.target import CpuTarget
from rnnc.runtime.targets.registry import TARGETS, register_target, unregister_target

CELLS = ("lstm", "gru", "fastgrnn", "unicornn", "peephole_lstm")


class Joining(CpuTarget):
    """The CPU's kernels, with both directions in one call."""

    def __init__(self) -> None:
        self.ran: list[object] = []

    def joins(self, layer_call, like, batch, heads, dim):
        return True

    def forward(self, layer_call, inputs, donated=False):
        self.ran.append((layer_call.choice.reverse, inputs.wx.shape[2]))
        return super().forward(layer_call, inputs, donated)

    def forward_of_features(self, layer_call, x, weight, inputs):
        self.ran.append((layer_call.choice.reverse, inputs.wx.shape[2]))
        return super().forward_of_features(layer_call, x, weight, inputs)

    def backward(self, layer_call, backward):
        self.ran.append(layer_call.choice.reverse)
        return super().backward(layer_call, backward)


@pytest.fixture
def joining():
    target = Joining()
    register_target("joining", target)
    yield target
    unregister_target("joining")


def both_ways(name="lstm", **options):
    """A module of two calls per layer, and the same of one."""
    options = {"heads": 2, "bidirectional": True, "dtype": torch.float64} | options
    one = rnnc.RNN(rnnc.cells.get(name), 5, 6, backend="cpu", **options)
    other = copy.deepcopy(one)
    other.backend = "joining"
    return one, other


def results(module, x, states, seed=0):
    """Outputs and every gradient by name."""
    x = x.clone().requires_grad_()
    given = None if states is None else [s.clone().requires_grad_() for s in states]
    torch.manual_seed(seed)  # of dropout
    y, last = module(x, given)
    total = y.square().sum() + sum((s * s.detach().cos()).sum() for s in last)
    named = {"x": x, **dict(module.named_parameters())}
    named |= {f"states[{i}]": s for i, s in enumerate(given or ())}
    found = torch.autograd.grad(total, list(named.values()), materialize_grads=True)
    outputs = {"y": y} | {f"last[{i}]": s for i, s in enumerate(last)}
    return outputs | dict(zip(named, found, strict=True))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_layers": 3}, {"num_layers": 2, "dropout": 0.4}])
@pytest.mark.parametrize("name", CELLS)
def test_every_result_and_gradient(name, options, given, joining, poisoned):
    one, other = both_ways(name, **options)
    x, layers = torch.randn(7, 3, 5, dtype=torch.float64), options.get("num_layers", 1)
    shape = (2 * layers, 3, 6)
    drawn = [torch.rand(shape, dtype=torch.float64) + 0.5 for _ in one.cell.states]
    states = drawn if given else None
    got, wanted = (results(module, x, states) for module in (other, one))
    assert joining.ran[:layers] == [("half", 4)] * layers
    assert joining.ran[layers:] == ["half"] * layers
    assert got.keys() == wanted.keys()
    for key, value in wanted.items():
        torch.testing.assert_close(got[key], value, msg=lambda m, key=key: f"{key}: {m}")


def test_without_biases_and_without_gradients(joining):
    one, other = both_ways(bias=False, num_layers=2)
    x = torch.randn(4, 3, 5, dtype=torch.float64)
    for module in (one, other):
        module.requires_grad_(False)
    torch.testing.assert_close(other(x), one(x))
    with torch.inference_mode():
        torch.testing.assert_close(other(x), one(x))
    assert {reverse for reverse, _ in joining.ran} == {"half"}


def test_some_gradients_alone(joining):
    """Of one direction's input weight, and of the last state of one direction."""
    one, other = both_ways(num_layers=2)
    x, found = torch.randn(4, 3, 5, dtype=torch.float64), []
    for module in (one, other):
        module.requires_grad_(False)
        for name in ("weight_ih_l0_reverse", "weight_hh_l1"):
            module.get_parameter(name).requires_grad_()
        _, (last, _) = module(x)
        last[2].sum().backward()
        found.append([module.weight_ih_l0_reverse.grad, module.weight_hh_l1.grad])
    torch.testing.assert_close(found[1], found[0])


def test_a_graph_that_is_kept_gives_the_same_again(joining):
    _, module = both_ways()
    y, _ = module(torch.randn(4, 3, 5, dtype=torch.float64))
    total, parameters = y.square().sum(), list(module.parameters())
    first = torch.autograd.grad(total, parameters, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(total, parameters)))


def test_weights_changed_between_calls_are_seen(joining):
    one, other = both_ways()
    x = torch.randn(4, 3, 5, dtype=torch.float64)
    other(x)
    for module in (one, other):
        module.weight_hh_l0_reverse.data.mul_(-0.5)
        module.bias_l0.data.add_(1)
    torch.testing.assert_close(other(x), one(x))


def test_saved_tensors_may_be_packed(joining):
    _, module = both_ways(num_layers=2)
    x = torch.randn(4, 3, 5, dtype=torch.float64)
    wanted = results(module, x, None)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
        got = results(module, x, None)
    assert all(torch.equal(got[key], value) for key, value in wanted.items())


def test_a_compiled_module_joins_where_the_batch_is_known(monkeypatch):
    torch._dynamo.reset()
    module, target = both_ways(num_layers=2)[0], Joining()
    module.backend = "auto"
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    inputs = [torch.randn(4, batch, 5, dtype=torch.float64) for batch in (3, 7, 9)]
    wanted = [results(module, x, None) for x in inputs]
    monkeypatch.setitem(TARGETS, "cpu", target)
    ran = []
    for x, right in zip(inputs, wanted, strict=True):
        target.ran.clear()
        got = results(compiled, x, None)
        for key, value in zip(right, got.values(), strict=True):
            torch.testing.assert_close(value, right[key], msg=lambda m, key=key: f"{key}: {m}")
        ran.append([each for each in target.ran if not isinstance(each, tuple)])
    assert ran == [["half"] * 2, [False, True] * 2, [False, True] * 2]
    torch._dynamo.reset()
