"""The rows of a module's weights: their order, and weights of earlier versions put into it."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, param, tanh
from torch import nn
from torch.nn.utils import parametrize, prune


@rnnc.cell
def odd(
    h: State,
    c: State,
    *,
    a: Gate = gate(source="c"),
    b: Gate = gate(recurrent="diagonal"),
    d: Gate,
    w: Param = param(0.5),
):
    """Has a weight of every kind, and several gates."""
    return tanh(a + w * b * d), h * w + c


def module(heads=2, **options):
    rnn = rnnc.RNN(odd, 3, 8, heads=heads, num_layers=2, **options)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return rnn


def run(rnn, x, states=None, step=False):
    """Every output and every gradient, by name."""
    y, last = rnn.step(x[0], states) if step else rnn(x, states)
    loss = y.sin().sum() + sum(s.square().sum() for s in last)
    named = {"x": x} | dict(rnn.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()))
    return {"y": y.detach()} | dict(zip(named, found, strict=True))


def earlier(name, rows, heads):
    """A weight as earlier versions kept it: gate by gate."""
    if name.startswith("w_") or name.endswith("_l0.w"):
        return rows
    dim = 8 // heads
    return rows.reshape(heads, -1, dim, *rows.shape[1:]).transpose(0, 1).contiguous()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("cell", [odd, rnnc.cells.lstm, rnnc.cells.indrnn], ids=lambda c: c.name)
def test_each_head_has_the_rows_of_a_module_of_its_own(cell, backend):
    """So what cuts the first axis cuts heads: outputs and gradients, of sequences and of steps."""
    options = {"backend": backend, "dtype": torch.float64}
    whole = rnnc.RNN(cell, 3, 12, heads=3, **options)
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    given = [torch.rand(1, 2, 12, dtype=torch.float64) for _ in cell.states]
    for step in (False, True):
        found, d_x = run(whole, x, given, step), 0.0
        for head in range(3):
            alone = rnnc.RNN(cell, 3, 4, **options)
            units = slice(4 * head, 4 * head + 4)
            alone.load_state_dict({n: p.chunk(3)[head] for n, p in whole.state_dict().items()})
            wanted = run(alone, x, [s[..., units] for s in given], step)
            torch.testing.assert_close(found["y"][..., units], wanted.pop("y"))
            d_x = d_x + wanted.pop("x")
            for name, gradient in wanted.items():
                own = found[name].chunk(3)[head]
                torch.testing.assert_close(own, gradient, msg=lambda t, n=name: f"{n} {t}")
        torch.testing.assert_close(found["x"], d_x)


@pytest.mark.parametrize("heads", [1, 2])
def test_a_state_dict_of_an_earlier_version_is_put_in_order(heads):
    source, target = nn.Sequential(module(heads)), nn.Sequential(module(heads))
    old = source.state_dict()
    for key in list(old):
        old[key] = earlier(key.removeprefix("0."), old[key], heads)
    assert old["0.weight_hh_l1"].ndim == 4
    before = dict(old)
    for assign in (False, True):
        target.load_state_dict(old, assign=assign)
        for key, value in source.state_dict().items():
            assert torch.equal(target.state_dict()[key], value), key
        target[0].reset_parameters()
    assert all(old[key] is value for key, value in before.items())
    # Through a file, which drops nothing, and without metadata.
    file = io.BytesIO()
    torch.save(dict(old), file)
    file.seek(0)
    target.load_state_dict(torch.load(file))
    assert torch.equal(target[0].bias_l1, source[0].bias_l1)


def test_only_the_shapes_of_earlier_versions_are_put_in_order():
    rnn = module()
    wrong = rnn.state_dict()
    wrong["weight_hh_l0"] = torch.zeros(2, 2, 4, 5)
    wrong["bias_l0"] = torch.zeros(2, 3, 4)
    with pytest.raises(RuntimeError, match="size mismatch for weight_hh_l0"):
        rnn.load_state_dict(wrong)
    with pytest.raises(RuntimeError, match="size mismatch for bias_l0"):
        rnn.load_state_dict(wrong)


def test_weights_that_are_computed_are_put_in_order_too():
    class Doubled(nn.Module):
        def forward(self, original):
            return 2 * original

    def changed():
        rnn = module()
        parametrize.register_parametrization(rnn, "weight_hh_l0", Doubled())
        prune.l1_unstructured(rnn, "weight_ih_l1", 0.5)
        return rnn

    source, target = changed(), changed()
    old = source.state_dict()
    for key in ("parametrizations.weight_hh_l0.original", "weight_ih_l1_orig", "weight_ih_l1_mask"):
        old[key] = earlier(key, old[key], 2)
    target.load_state_dict(old)
    x = torch.randn(5, 2, 3)
    assert torch.equal(target(x)[0], source(x)[0])


@pytest.mark.parametrize("heads", [1, 2])
def test_a_pickle_of_an_earlier_version_is_put_in_order(heads):
    rnn = module(heads)
    old = copy.deepcopy(rnn)
    for name, parameter in old.named_parameters():
        parameter.data = earlier(name, parameter.data, heads)
    del old.__dict__["_form"]
    found = pickle.loads(pickle.dumps(old))
    x = torch.randn(5, 2, 3)
    assert torch.equal(found(x)[0], rnn(x)[0])


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_moments_of_an_earlier_version_are_put_in_order(kind, heads):
    def made():
        model = nn.Sequential(nn.Linear(3, 3), module(heads))
        weights = model.parameters()
        if kind == "adam":
            return model, torch.optim.Adam(weights, amsgrad=True)
        return model, torch.optim.SGD(weights, momentum=0.9, lr=0.1)

    model, optimizer = made()
    x = torch.randn(4, 2, 3)

    def learn(model, optimizer):
        optimizer.zero_grad()
        model(x)[0].square().sum().backward()
        optimizer.step()

    learn(model, optimizer)
    names = [name for name, _ in model.named_parameters()]
    old = copy.deepcopy(optimizer.state_dict())
    for number, state in old["state"].items():
        name = names[number]
        if not name.startswith("1."):
            continue
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and value.ndim:
                state[key] = earlier(name.removeprefix("1."), value, heads)
    other, loaded = made()
    other.load_state_dict(model.state_dict())
    loaded.load_state_dict(old)
    for _ in range(2):  # the second time changes nothing
        rnnc.upgrade_optimizer_state(loaded, other)
    learn(model, optimizer)
    learn(other, loaded)
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name


def test_a_state_of_unknown_order_is_an_error_and_changes_nothing():
    rnn = module()
    optimizer = torch.optim.Adam(rnn.parameters())
    first = earlier("weight_ih_l0", torch.randn_like(rnn.weight_ih_l0), 2)
    optimizer.state[rnn.weight_ih_l0]["exp_avg"] = first
    optimizer.state[rnn.weight_hh_l1]["row"] = torch.zeros(3)
    with pytest.raises(rnnc.TensorError) as caught:
        rnnc.upgrade_optimizer_state(optimizer, rnn)
    assert "the optimizer's row of weight_hh_l1\n  found:  shape (3,)" in str(caught.value)
    assert optimizer.state[rnn.weight_ih_l0]["exp_avg"] is first


def test_states_of_today_that_sum_over_axes_stay():
    rnn = module()
    optimizer = torch.optim.Adafactor(rnn.parameters())
    rnn(torch.randn(4, 2, 3))[0].sum().backward()
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict())
    rnnc.upgrade_optimizer_state(optimizer, rnn)
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            assert torch.equal(value, before["state"][number][key]), key


def test_a_seed_draws_the_numbers_of_earlier_versions():
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 4, heads=2)
    torch.manual_seed(0)
    drawn = torch.empty(4, 2, 2, 3).uniform_(-1, 1)
    rows = drawn.transpose(0, 1).reshape(16, 3)
    torch.testing.assert_close(rnn.weight_ih_l0.detach(), rows)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("size", [8, 96])  # of a size, torch multiplies those of a single step
def test_kernels_read_matrices_head_by_head_where_they_are(size, steps):
    heads, cell = 3, rnnc.cells.scrn
    matrices = len(cell.dense_pairs)
    rows = torch.randn(heads, matrices, size, size) / size**0.5
    wx = torch.randn(4, steps, heads, size, len(cell.input_gates))
    results = []
    for R in (rows.transpose(0, 1), rows.transpose(0, 1).contiguous()):
        given = [R.detach().requires_grad_(), wx.clone().requires_grad_()]
        sequences, _ = rnnc.scan(cell, given[1], given[0])
        seeds = [torch.ones_like(s) for s in sequences]
        results.append([*sequences, *torch.autograd.grad(sequences, given, seeds)])
    for found, wanted in zip(*results, strict=True):
        assert torch.equal(found, wanted)
