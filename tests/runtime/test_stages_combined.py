"""Cells with stages beside other features of calls and of modules, on the CPU."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import rnnc
import torch
from rnnc import Gate, State, layer_norm, sigmoid, tanh, with_gradient
from rnnc.runtime.cpu import target
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

B, T, N, D, FEATURES = 3, 6, 2, 4, 5
NAMES = ["gru", "norm_lstm", "deep"]
LENGTHS = torch.tensor([T, 2, 0])
RESET = torch.rand(B, T, generator=torch.Generator().manual_seed(3)) < 0.3
MASKS = {"lengths": LENGTHS, "reset": RESET}


def module(cell, **options) -> rnnc.RNN:
    torch.manual_seed(3)
    return rnnc.RNN(cell, FEATURES, N * D, heads=N, dtype=torch.float64, **options)


def gradients(cell, given, backend, **options):
    """Results of a scan and the gradient of every tensor, by name."""
    over_time, last = rnnc.scan(
        *(cell, given.wx, given.R, given.b, given.states),
        R_diag=given.R_diag,
        params=given.params,
        inputs=given.inputs or None,
        backend=backend,
        **options,
    )
    return slopes({f"{i}": t for i, t in enumerate((*over_time, *last))}, given.named())


def slopes(results, leaves):
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(r.shape, generator=generator, dtype=r.dtype) for r in results.values()]
    found = torch.autograd.grad([*results.values()], [*leaves.values()], seeds)
    return results | {f"d {name}": slope for name, slope in zip(leaves, found, strict=True)}


def check_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-9, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("masks", [{}, MASKS], ids=["whole", "masks"])
@pytest.mark.parametrize("name", NAMES)
def test_reversed_time_is_a_loop_backwards(name, masks, staged_cells, inputs_for):
    cell, twin = staged_cells.TWINS[name]
    given = inputs_for(cell, B, T, N, D)
    found = gradients(cell, given, "cpu", reverse=True, **masks)
    check_same(found, gradients(cell, given, "reference", reverse=True, **masks))
    if not masks:
        wanted = staged_cells.loop(cell, twin, given, reverse=True)
        for value, expected in zip(found.values(), wanted.values(), strict=False):
            torch.testing.assert_close(value, expected)


def test_a_gradient_in_place_of_that_of_a_stage(inputs_for):
    """The value is that of a norm and of a called gate, and the gradient that of others."""

    @rnnc.cell
    def straight_through(g: Gate, n: Gate, m: Gate, h: State):
        normed = with_gradient(rnnc.round(4 * layer_norm(g)) / 4, of=layer_norm(g))
        return tanh(with_gradient(n(normed * h), of=m(sigmoid(normed))))

    given = inputs_for(straight_through, B, T, N, D)
    found = gradients(straight_through, given, "cpu", **MASKS)
    check_same(found, gradients(straight_through, given, "reference", **MASKS))
    assert not found["d R"][1].any()  # of n, whose value counts and whose gradient does not
    assert found["d R"][2].any()


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_that_is_retained_gives_the_same_again(name, staged_cells, inputs_for):
    """The last backward may overwrite what the forward saved, and the first must not."""
    cell, _ = staged_cells.TWINS[name]
    given = inputs_for(cell, B, T, N, D)
    leaves = [*given.named().values()]
    loss = sum(r.square().sum() for r in given.scan(cell, "cpu").values())
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    again = torch.autograd.grad(loss, leaves, retain_graph=True)
    last = torch.autograd.grad(loss, leaves)
    for one, *others in zip(first, again, last, strict=True):
        assert all(torch.equal(one, other) for other in others)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(loss, leaves)


def test_initial_values_of_a_called_gate():
    rnn = module("gru_reset_first")
    before = rnn.weight_hh_l0.detach().clone()
    rnnc.init.orthogonal_(rnn, gate="n", gain=2.0)
    rows = rnn.weight_hh_l0.view(N, 3, D, D)
    for matrix in rows[:, 2]:
        torch.testing.assert_close(matrix @ matrix.T, 4 * torch.eye(D).double())
    assert torch.equal(rows[:, :2], before.view(N, 3, D, D)[:, :2])
    rnnc.init.constant_(rnn, "bias", 0.5, gate="n")
    assert (rnn.bias_l0.view(N, 3, D)[:, 2] == 0.5).all()


def test_weights_that_are_computed():
    """A called gate's matrix follows its parametrization, and passes the gradient on."""
    rnn = module("joint_norm_lstm")
    plain = copy.deepcopy(rnn)
    parametrizations.weight_norm(rnn, "weight_hh_l0")
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    torch.testing.assert_close(rnn(x)[0], plain(x)[0])
    rnn(x)[0].square().sum().backward()
    weights = rnn.parametrizations.weight_hh_l0
    assert all(p.grad.isfinite().all() and p.grad.any() for p in weights.parameters())
    with torch.no_grad():
        weights.original0.mul_(0.5)
    assert not torch.allclose(rnn(x)[0], plain(x)[0])
    torch.testing.assert_close(rnn.step(x[0])[0], rnn(x[:1])[0][0])


def test_warmup_loads_what_a_call_runs(monkeypatch):
    loaded, own = [], target.cpu_library
    monkeypatch.setattr(target, "cpu_library", lambda *a: loaded.append(a) or own(*a))
    rnn = module("gru_reset_first", bidirectional=True)
    assert rnnc.warmup(rnn, (T, B, FEATURES)) == [
        "gru_reset_first, 2 x 4, batch 3, float64 on cpu, both directions"
    ]
    assert {plan.reverse for _, plan in loaded} == {False, True}


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_dropout_and_batch_first(backend):
    rnn = module("joint_norm_lstm", backend=backend, num_layers=2, dropout=0.5, batch_first=True)
    x = torch.randn(B, T, FEATURES, dtype=torch.float64)
    torch.manual_seed(1)
    drawn, _ = rnn(x)
    torch.manual_seed(1)
    assert torch.equal(rnn(x)[0], drawn)
    torch.manual_seed(2)
    assert not torch.equal(rnn(x)[0], drawn)
    first_layers = module("joint_norm_lstm", num_layers=2)
    torch.testing.assert_close(rnn.eval()(x)[0], first_layers(x.transpose(0, 1))[0].transpose(0, 1))


def test_weights_are_saved_and_loaded(tmp_path):
    rnn = nn.Sequential(module("rhn"))
    torch.save(rnn.state_dict(), tmp_path / "saved.pt")
    other = nn.Sequential(module("rhn"))
    with torch.no_grad():
        other[0].weight_hh_l0.zero_()
    other.load_state_dict(torch.load(tmp_path / "saved.pt"))
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    assert torch.equal(other(x)[0], rnn(x)[0])
    with pytest.raises(rnnc.TensorError, match="wanted: those of mgu"):
        module("mgu").load_state_dict(rnn[0].state_dict())


def test_a_call_that_comes_again_is_the_same(staged_cells):
    """The third call and its backward are replayed."""
    rnn = module(staged_cells.TWINS["norm_lstm"][0], num_layers=2)
    calls = []
    for seed in (0, 1, 2, 0):
        torch.manual_seed(seed)
        x = torch.randn(T, B, FEATURES, dtype=torch.float64, requires_grad=True)
        rnn.zero_grad()
        y, _ = rnn(x, lengths=LENGTHS)
        y.square().sum().backward()
        named = {n: p.grad.clone() for n, p in rnn.named_parameters()}
        calls.append(named | {"x": x.grad, "y": y.detach()})
    for name, value in calls[0].items():
        assert torch.equal(calls[-1][name], value), name
        assert not torch.equal(calls[1][name], value)


def test_activation_checkpointing(staged_cells):
    rnn = module(staged_cells.TWINS["gru"][0])
    x = torch.randn(T, B, FEATURES, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(rnn(x)[0].square().sum(), x)[0]
    run = partial(checkpoint, rnn, use_reentrant=False)
    found = torch.autograd.grad(run(x)[0].square().sum(), x)[0]
    assert torch.equal(found, wanted)
