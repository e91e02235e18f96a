"""All layers of a module as one node of autograd: gradients, dropout, hooks, changes in place."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.errors import TensorError
from torch.autograd.graph import saved_tensors_hooks


def results(module, x, states, seeds):
    x = x.detach().requires_grad_()
    states = [s.detach().requires_grad_() for s in states]
    y, last = module(x, states)
    wanted = {"x": x, **dict(module.named_parameters())}
    wanted |= {f"states.{i}": s for i, s in enumerate(states)}
    # Of the reference, some outputs and inputs hang on nothing.
    pairs = [(o, s) for o, s in zip([y, *last], seeds, strict=True) if o.requires_grad]
    outputs, given = zip(*pairs, strict=True)
    gradients = torch.autograd.grad(outputs, list(wanted.values()), given, materialize_grads=True)
    named = {f"d {name}": g for name, g in zip(wanted, gradients, strict=True)}
    return named | {"y": y.detach()} | {f"last.{i}": s.detach() for i, s in enumerate(last)}


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(
    "name", ["lstm", "gru", "slstm", "indrnn", "peephole_lstm", "sru", "janet"]
)
def test_every_gradient_by_name(name, directions, layers):
    cell = rnnc.cells.get(name)
    options = {"heads": 2, "num_layers": layers, "bidirectional": directions == 2}
    ours = rnnc.RNN(cell, 5, 12, dtype=torch.float64, **options)
    exact = rnnc.RNN(cell, 5, 12, dtype=torch.float64, backend="reference", **options)
    exact.load_state_dict(ours.state_dict())
    x = torch.randn(6, 3, 5, dtype=torch.float64)
    states = [torch.rand(layers * directions, 3, 12, dtype=torch.float64) for _ in cell.states]
    seeds = [torch.randn(6, 3, 12 * directions, dtype=torch.float64)]
    seeds += map(torch.randn_like, states)
    found, wanted = (results(module, x, states, seeds) for module in (ours, exact))
    assert type(ours(x.requires_grad_())[0].grad_fn).__name__ == "NodeBackward"
    assert set(found) == set(wanted)
    for key, right in wanted.items():
        torch.testing.assert_close(found[key], right, msg=lambda text, key=key: f"{key}: {text}")


def test_only_what_needs_a_gradient_gets_one():
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, num_layers=2)
    for name, parameter in rnn.named_parameters():
        parameter.requires_grad_(name == "weight_hh_l1")
    y, _ = rnn(torch.randn(5, 2, 4))
    y.sum().backward()
    graded = {name for name, p in rnn.named_parameters() if p.grad is not None}
    assert graded == {"weight_hh_l1"}


def test_dropout_s_masks_are_the_same_in_the_backward():
    rnn = rnnc.RNN(rnnc.cells.gru, 3, 6, num_layers=3, dropout=0.5, dtype=torch.float64)
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)

    def run(x):
        torch.manual_seed(5)
        return rnn(x)[0]

    assert torch.autograd.gradcheck(run, x)
    rnn.eval()
    assert torch.equal(rnn(x)[0], rnn(x)[0])


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_nothing_and_of_everything(p):
    rnn = rnnc.RNN(rnnc.cells.gru, 3, 6, num_layers=2, dropout=p)
    x = torch.randn(4, 2, 3, requires_grad=True)
    y, _ = rnn(x)
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert bool(x.grad.any()) is (p == 0)


def test_the_gradient_of_a_gradient_names_the_reference():
    rnn = rnnc.RNN(rnnc.cells.gru, 3, 6, num_layers=2)
    x = torch.randn(4, 2, 3, requires_grad=True)
    (plain,) = torch.autograd.grad(rnn(x)[0].sum(), x)
    (first,) = torch.autograd.grad(rnn(x)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(first, plain)
    with pytest.raises(rnnc.RnncError, match="reference"):
        first.square().sum().backward()


def test_outputs_may_change_in_place():
    rnn = rnnc.RNN(rnnc.cells.elman, 3, 6)
    x = torch.randn(4, 2, 3)
    y, (last,) = rnn(x)
    last.mul_(2)
    last.sum().backward()  # the backward does not read the last states
    rnn.zero_grad()
    y, _ = rnn(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_graph_that_is_kept_runs_twice():
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 6, num_layers=2)
    y, _ = rnn(torch.randn(4, 2, 3))
    y.sum().backward(retain_graph=True)
    first = [p.grad.clone() for p in rnn.parameters()]
    y.sum().backward()
    for once, parameter in zip(first, rnn.parameters(), strict=True):
        assert torch.equal(parameter.grad, 2 * once)


def test_a_hook_that_gives_back_another_shape_is_named():
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 6)
    with saved_tensors_hooks(lambda t: t, lambda t: t[..., :1]):
        y, _ = rnn(torch.randn(4, 2, 3))
        with pytest.raises(TensorError, match="saved tensor 0 of a backward"):
            y.sum().backward()


@pytest.mark.parametrize("shape", [(0, 2, 3), (4, 0, 3)])
def test_no_steps_and_no_rows(shape):
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 6, num_layers=2)
    x = torch.randn(shape, requires_grad=True)
    y, last = rnn(x)
    (y.sum() + sum(s.sum() for s in last)).backward()
    assert y.shape == (*shape[:2], 6)
    assert x.grad.shape == shape
    assert all(p.grad is not None and not p.grad.any() for p in rnn.parameters())


@pytest.mark.parametrize(
    ("option", "value"),
    [("precision", "high"), ("precision", True), ("variant", "warp"), ("save", "all")],
)
def test_an_option_that_does_not_exist(option, value):
    with pytest.raises(TensorError, match=option):
        rnnc.RNN(rnnc.cells.lstm, 3, 6, **{option: value})
    wx, R = torch.randn(1, 2, 1, 4, 1), torch.randn(1, 1, 4, 4)
    for backend in ("cpu", "reference"):
        with pytest.raises(TensorError, match=option) as error:
            rnnc.scan(rnnc.cells.elman, wx, R, backend=backend, **{option: value})
        assert error.value.argument == option


@pytest.mark.parametrize(("option", "value"), [("variant", "warp"), ("save", "all")])
def test_an_option_that_no_check_of_arguments_has_seen(option, value):
    """A changed attribute of a module; and compilers leave checks of arguments out."""
    rnn, x = rnnc.RNN(rnnc.cells.elman, 3, 6), torch.randn(4, 2, 3)
    setattr(rnn, option, value)
    with pytest.raises(TensorError, match=option):
        rnn(x)
    with pytest.raises(TensorError, match=option):
        torch.compile(rnn, backend="eager")(x)
