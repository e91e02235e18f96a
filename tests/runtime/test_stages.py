"""Cells with stages in every kind of call, against loops of torch and the reference."""

from __future__ import annotations

import copy
import itertools

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, layer_norm, param, sigmoid, tanh

T, B, N, D, FEATURES = 5, 3, 2, 4, 6
LENGTHS = torch.tensor([T, 3, 0])


@rnnc.cell
def staged(z: Gate, r: Gate, n: Gate, h: State, gain: Param = param(init=1.0)):
    """A called gate between two norms."""
    z, r = layer_norm((z, r), gain=(gain, 1))
    candidate = layer_norm(n(sigmoid(r) * h), gain)
    return h + sigmoid(z) * (tanh(candidate) - h)


def module(cell=staged, backend="auto", **options) -> rnnc.RNN:
    torch.manual_seed(3)
    sizes = {"heads": N, "dtype": torch.float64}
    return rnnc.RNN(cell, FEATURES, N * D, backend=backend, **{**sizes, **options})


def both(call, cell=staged, **options) -> None:
    """A call gives the same by kernels and by the reference, with every gradient by name."""
    found = []
    for backend in ("cpu", "reference"):
        rnn = module(cell, backend, **options)
        torch.manual_seed(5)
        x = torch.randn(T, B, FEATURES, dtype=torch.float64, requires_grad=True)
        results = call(rnn, x)
        loss = sum((r * torch.linspace(1, 2, r.numel()).reshape(r.shape)).sum() for r in results)
        loss.backward()
        gradients = {name: p.grad for name, p in rnn.named_parameters()} | {"x": x.grad}
        found.append((results, gradients))
    (own, slopes), (wanted, their) = found
    torch.testing.assert_close(own, wanted)
    assert None not in slopes.values()
    for name, slope in their.items():
        torch.testing.assert_close(slopes[name], slope, msg=lambda m, n=name: f"{n} {m}")


def over_time(rnn, x, **call):
    y, last, *_ = rnn(x, **call)
    return [y, *last]


@pytest.mark.parametrize(
    "options", [{"num_layers": 2}, {"bidirectional": True}, {"save": "states"}], ids=str
)
def test_modules(options):
    both(over_time, **options)


def test_lengths_and_resets():
    reset = torch.rand(T, B, generator=torch.Generator().manual_seed(1)) < 0.4
    both(lambda rnn, x: over_time(rnn, x, lengths=LENGTHS), bidirectional=True)
    both(lambda rnn, x: over_time(rnn, x, reset=reset, lengths=LENGTHS))


@pytest.mark.parametrize("shape", [(1, N * D), (1, B, N * D), (1, T, B, N * D)], ids=str)
def test_reset_to_in_its_three_forms(shape):
    reset = torch.rand(T, B, generator=torch.Generator().manual_seed(1)) < 0.4
    value = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def call(rnn, x):
        return over_time(rnn, x, reset=reset, reset_to=(value,))

    both(call)


def test_padding_reaches_neither_products_nor_norms():
    """NaN behind a row's end and before a reset stay there."""
    rnn = module()
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    lengths = torch.tensor([T, 3, 1])
    wanted, _ = rnn(x, lengths=lengths)
    for row, length in enumerate(lengths):
        x[length:, row] = torch.nan
    found, _ = rnn(x, lengths=lengths)
    assert torch.equal(found, wanted)
    found.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in rnn.parameters())
    states = (torch.full((1, B, N * D), torch.nan, dtype=torch.float64),)
    reset = torch.zeros(T, B, dtype=torch.bool)
    reset[0] = True
    fresh, _ = rnn(x[:1], states, reset=reset[:1])
    assert torch.equal(fresh, rnn(x[:1])[0])


def test_all_states_of_a_cell_with_two():
    @rnnc.cell
    def with_memory(i: Gate, n: Gate, h: State, c: State):
        c = c + sigmoid(i) * tanh(n(layer_norm(c)))
        return tanh(c), c

    def call(rnn, x):
        y, last, states = rnn(x, all_states=True)
        return [y, *last, *states.values()]

    both(call, with_memory, num_layers=2)


def test_inputs_that_are_drawn_or_passed(staged_cells):
    @rnnc.cell
    def noisy(g: Gate, n: Gate, h: State, keep: rnnc.Input = rnnc.bernoulli(0.5)):
        return tanh(n(keep * h) + rnnc.mean(g))

    rnn = module(noisy)
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    torch.manual_seed(7)
    first = rnn(x)[0]
    torch.manual_seed(7)
    assert torch.equal(rnn(x)[0], first)
    ones = torch.ones(T, B, dtype=torch.float64)
    both(lambda rnn, x: over_time(rnn, x, inputs={"keep": ones}), noisy)
    assert torch.equal(rnn.eval()(x)[0], rnn(x, inputs={"keep": 0.5 * ones})[0])


def test_gradients_of_inputs_behind_a_drawn_one():
    """Nobody asks for the gradient of what is drawn, so those of the others move up."""

    @rnnc.cell
    def mixed(g: Gate, n: Gate, h: State, *, noise: rnnc.Input = rnnc.normal(), dt: rnnc.Input):
        return tanh(n(dt * h) + noise + g)

    def call(rnn, x):
        dt = torch.linspace(0.1, 1, T * B, dtype=torch.float64).view(T, B).requires_grad_()
        y, _ = rnn(x, inputs={"dt": dt, "noise": torch.zeros(T, B, dtype=torch.float64)})
        (slope,) = torch.autograd.grad(y.square().sum(), dt, retain_graph=True)
        return [y, slope.requires_grad_()]

    both(call, mixed)


def test_packed_rows():
    torch.manual_seed(0)
    wx = torch.randn(7, N, D, 3, dtype=torch.float64)
    R, b = torch.randn(3, N, D, D, dtype=torch.float64), torch.randn(3, N, D, dtype=torch.float64)
    params = {"gain": torch.randn(N, D, dtype=torch.float64)}
    ends = torch.tensor([0, 4, 4, 7], dtype=torch.int32)
    options = {"cu_seqlens": ends, "params": params}
    (found,), (last,) = rnnc.scan_packed(staged, wx, R, b, **options)
    for row, (begin, end) in enumerate(itertools.pairwise(ends.tolist())):
        if begin < end:
            (alone,), (end_state,) = rnnc.scan(
                staged, wx[None, begin:end], R, b, params=params, backend="reference"
            )
            torch.testing.assert_close(found[begin:end], alone[0])
            torch.testing.assert_close(last[row], end_state[0])


@pytest.mark.parametrize("layers", [1, 2])
def test_steps_are_those_of_a_sequence(layers):
    rnn = module(num_layers=layers)
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    wanted, last = rnn(x)
    states, found = None, []
    for each in x:
        y, states = rnn.step(each, states)
        found.append(y)
    torch.testing.assert_close(torch.stack(found), wanted)
    torch.testing.assert_close(states, last)
    with torch.no_grad():
        stepper = rnn.stepper(B)
        found = [stepper(each).clone() for each in x]
        one, _ = rnn(x[:1])
    torch.testing.assert_close(torch.stack(found), wanted)
    torch.testing.assert_close(one, wanted[:1])


def test_compiled_and_exported():
    torch.compiler.reset()
    rnn = module(dtype=torch.float32, num_layers=2)
    x = torch.randn(T, B, FEATURES)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x)[0], rnn(x)[0])
    exported = torch.export.export(rnn.eval(), (x,)).module()
    torch.testing.assert_close(exported(x)[0], rnn(x)[0])


def test_autocast_runs_as_of_other_cells():
    x = torch.randn(T, B, FEATURES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        own = module(dtype=torch.float32)(x)[0]
        other = module(rnnc.cells.gru, dtype=torch.float32)(x)[0]
    assert own.dtype == other.dtype == torch.bfloat16
    torch.testing.assert_close(own.float(), module(dtype=torch.float32)(x)[0], rtol=0, atol=0.02)


def test_functional_transforms():
    rnn = module()
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    weights = dict(rnn.named_parameters())

    def loss(own, row):
        return torch.func.functional_call(rnn, own, (row[:, None],))[0].square().sum()

    found = torch.func.vmap(torch.func.grad(loss), (None, 1))(weights, x)
    for row in range(B):
        wanted = torch.autograd.grad(loss(weights, x[:, row]), [*weights.values()])
        for (name, own), slope in zip(found.items(), wanted, strict=True):
            torch.testing.assert_close(own[row], slope, msg=lambda m, n=name: f"{n} {m}")
    stacked = {name: torch.stack([p, 0.5 * p]) for name, p in weights.items()}
    ensemble = torch.func.vmap(lambda own: torch.func.functional_call(rnn, own, (x,))[0])(stacked)
    halved = {name: 0.5 * p for name, p in weights.items()}
    torch.testing.assert_close(ensemble[0], rnn(x)[0])
    torch.testing.assert_close(ensemble[1], torch.func.functional_call(rnn, halved, (x,))[0])


def test_weights_have_the_gate_s_place():
    rnn = module(rnnc.cells.gru), module()
    assert rnn[1].weight_hh_l0.shape == (3 * N * D, D)
    copied = copy.deepcopy(rnn[1])
    again = module()
    again.load_state_dict(copied.state_dict())
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    assert torch.equal(again(x)[0], rnn[1](x)[0])
    with torch.no_grad():
        again.weight_hh_l0.view(3, N, D, D)[2].zero_()
    assert not torch.equal(again(x)[0], rnn[1](x)[0])


def test_what_a_projection_cannot_have():
    with pytest.raises(rnnc.TensorError, match=r"its output h in the argument of the gate n, n\("):
        module(proj_size=2)

    @rnnc.cell
    def reducing(i: Gate, h: State, c: State):
        return tanh(c + i), layer_norm(h) + c

    with pytest.raises(rnnc.TensorError, match=r"reads its output h in layer_norm\(…\)"):
        module(reducing, proj_size=2)


@pytest.mark.parametrize("name", ["norm_lstm", "multiplicative_lstm"])
def test_a_projected_output_of_a_cell_that_norms_or_multiplies_other_values(name, staged_cells):
    cell = staged_cells.TWINS["norm_lstm"][0] if name == "norm_lstm" else rnnc.cells.get(name)
    both(over_time, cell, proj_size=2)
    reset = torch.rand(T, B, generator=torch.Generator().manual_seed(1)) < 0.4
    both(lambda rnn, x: over_time(rnn, x, reset=reset, lengths=LENGTHS), cell, proj_size=2)


def test_what_runs_on_no_cpu_is_refused_in_words():
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    with pytest.raises(rnnc.PlanError, match="tensors on cpu"):
        module(num_layers=2, layers="wavefront")(x)
    with pytest.raises(rnnc.PlanError, match=r"layer_norm\(\(z, r\)\)"):
        staged.cuda(head_dim=64, gpu="H200", variant="walk")
