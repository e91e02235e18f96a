"""Calls under `vmap`: values and gradients of a loop of plain calls, by few calls of kernels."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.errors import TensorError
from torch import func
from torch._subclasses import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

LSTM, SIZE = rnnc.cells.lstm, 3
MODULES = {
    "two layers": (LSTM, {"num_layers": 2}),
    "both directions": (LSTM, {"num_layers": 2, "bidirectional": True, "heads": 2}),
    "states saved": (LSTM, {"num_layers": 2, "save": "states"}),
    "a gate without input": (rnnc.cells.gru, {"heads": 2}),
    "params": (rnnc.cells.peephole_lstm, {"num_layers": 2}),
    "a projection": (LSTM, {"num_layers": 2, "heads": 2, "proj_size": 1}),
    "diagonal weights": (rnnc.cells.brc, {"num_layers": 2, "bidirectional": True}),
}
WHAT = ["weights", "one weight", "a bias", "rows", "x", "states", "all"]


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, what, vmapped):
    cell, options = MODULES[name]
    run, tensors = vmapped.module_call(cell, "cpu", **options)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


@pytest.mark.parametrize("what", ["weights", "rows", "lengths", "resets", "all"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "blended"])
def test_lengths_resets_and_inputs(cell, both, what, vmapped):
    cell = vmapped.blended if cell == "blended" else LSTM
    options = {"num_layers": 2, "bidirectional": both, "ragged": True}
    run, tensors = vmapped.module_call(cell, "cpu", **options)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", ["brc", "blended"])
def test_scan(cell, reverse, what, vmapped):
    cell = vmapped.blended if cell == "blended" else rnnc.cells.get(cell)
    run, tensors = vmapped.scan_call(cell, "cpu", reverse=reverse)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


@pytest.mark.parametrize("what", ["weights", "rows", "lengths", "resets", "all"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "blended"])
def test_scan_with_lengths_and_resets(cell, reverse, what, vmapped):
    cell = vmapped.blended if cell == "blended" else LSTM
    run, tensors = vmapped.scan_call(cell, "cpu", ragged=True, reverse=reverse)
    vmapped.check(run, *vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE), SIZE)


# For each of these: the cell, what is mapped, and the calls of operators, forward and backward.
# There are two layers of two directions.
COUNTS = {
    "weights": (LSTM, "weights", 4, 4),
    "rows": (LSTM, "rows", 1, 1),
    "weights and x": (LSTM, "weights and x", 4, 4),
    "params": (rnnc.cells.peephole_lstm, "weights", 4, 4),
    "params of each sample": (rnnc.cells.peephole_lstm, "x", 1, SIZE),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_vmap_is_one_call(name, vmapped):
    cell, what, forward, backward = COUNTS[name]
    options = {"num_layers": 2, "bidirectional": True}
    run, tensors = vmapped.module_call(cell, "cpu", **options)
    given, dims = vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE)
    with vmapped.counted() as seen:
        vmapped.inside(run, given, dims)
    assert (seen.count("forward"), seen.count("backward")) == (forward, backward)


@pytest.mark.parametrize(("what", "calls"), [("rows", 1), ("weights", 4), ("all", 4 * SIZE)])
def test_lengths_join_rows_and_shared_ones_heads(what, calls, vmapped):
    options = {"num_layers": 2, "bidirectional": True, "ragged": True}
    run, tensors = vmapped.module_call(LSTM, "cpu", **options)
    given, dims = vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE)
    with vmapped.counted() as seen:
        vmapped.inside(run, given, dims)
    assert seen.count("forward") == seen.count("backward") == calls


def test_mapped_lengths_are_checked():
    rnn = rnnc.RNN(LSTM, 3, 4)
    x = torch.randn(5, 2, 3)
    run = func.vmap(lambda lengths: rnn(x, lengths=lengths)[0])
    run(torch.tensor([[0, 5], [1, 2]]))
    for wrong in (-1, 6):
        with pytest.raises(TensorError, match=f"a length of {wrong}"):
            run(torch.tensor([[0, 5], [1, wrong]]))


def weights_of(count):
    modules = [rnnc.RNN(LSTM, 3, 4, num_layers=2, dtype=torch.float64) for _ in range(count)]
    return modules[0], {n: p.detach() for n, p in func.stack_module_state(modules)[0].items()}


def test_gradients_of_each_sample_of_each_model(vmapped):
    rnn, weights = weights_of(3)
    x = torch.randn(4, 5, 3, dtype=torch.float64)

    def loss(weights, x):
        return func.functional_call(rnn, weights, (x,))[0].square().sum()

    one = func.grad(loss, argnums=(0, 1))
    with vmapped.counted() as seen:
        found, d_x = func.vmap(func.vmap(one, (None, 0)), (0, None))(weights, x)
    assert seen == ["forward", "forward", "backward", "backward"]
    for model in range(3):
        for sample in range(4):
            own = {name: w[model].clone().requires_grad_() for name, w in weights.items()}
            given = x[sample].clone().requires_grad_()
            wanted = torch.autograd.grad(loss(own, given), [*own.values(), given])
            got = {name: d[model, sample] for name, d in found.items()}
            vmapped.close(
                got | {"x": d_x[model, sample]},
                dict(zip([*own, "x"], wanted, strict=True)),
            )


def test_samples_of_samples(vmapped):
    rnn, weights = weights_of(1)
    weights = {name: w[0] for name, w in weights.items()}
    x = torch.randn(2, 3, 5, 2, 3, dtype=torch.float64)

    def gradients(x):
        return func.grad(
            lambda weights: func.functional_call(rnn, weights, (x,))[0].square().sum()
        )(weights)

    found = func.vmap(func.vmap(gradients))(x)
    for i in range(2):
        for j in range(3):
            vmapped.close({name: d[i, j] for name, d in found.items()}, gradients(x[i, j]))


@pytest.mark.parametrize("reverse_mode", ["jacrev", "vjp"])
def test_the_backwards_of_a_jacobian_are_one_call(reverse_mode, vmapped):
    rnn, weights = weights_of(1)
    weights = {name: w[0] for name, w in weights.items()}
    x = torch.randn(5, 2, 3, dtype=torch.float64)

    def output(weights, x):
        return func.functional_call(rnn, weights, (x,))[0].sum((0, 1))

    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    given = x.clone().requires_grad_()
    rows = output(leaves, given)
    each = [torch.autograd.grad(r, [*leaves.values(), given], retain_graph=True) for r in rows]
    wanted = dict(zip([*leaves, "x"], map(torch.stack, zip(*each, strict=True)), strict=True))
    with vmapped.counted() as seen:
        if reverse_mode == "jacrev":
            found, d_x = func.jacrev(output, argnums=(0, 1))(weights, x)
        else:
            backward = func.vjp(output, weights, x)[1]
            found, d_x = func.vmap(backward)(torch.eye(4, dtype=torch.float64))
    assert seen == ["forward", "backward"]
    vmapped.close(found | {"x": d_x}, wanted)


def test_dropout_of_an_ensemble(vmapped):
    modules = [rnnc.RNN(LSTM, 3, 64, num_layers=2, dropout=0.5) for _ in range(2)]
    weights, x = func.stack_module_state([modules[0], modules[0]])[0], torch.randn(5, 2, 3)

    def run(weights):
        return func.functional_call(modules[0], weights, (x,))[0]

    one, other = func.vmap(run, randomness="different")(weights)
    assert not torch.equal(one, other)
    one, other = func.vmap(run, randomness="same")(weights)
    torch.testing.assert_close(one, other)
    torch.manual_seed(0)
    assert not torch.equal(one, func.vmap(run, randomness="same")(weights)[0])
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(run)(weights)


def test_a_backward_outside_of_torch_func_reaches_stacked_weights(vmapped):
    rnn, weights = weights_of(2)
    weights = {name: w.requires_grad_() for name, w in weights.items()}
    x = torch.randn(5, 2, 3, dtype=torch.float64)

    def loss(weights):
        return func.functional_call(rnn, weights, (x,))[0].square().sum()

    func.vmap(loss)(weights).sum().backward()
    for model in range(2):
        wanted = func.grad(loss)({name: w.detach()[model] for name, w in weights.items()})
        vmapped.close({name: w.grad[model] for name, w in weights.items()}, wanted)


@pytest.mark.parametrize("what", ["x", "weights"])
def test_modes_see_the_operators(what, vmapped):
    run, tensors = vmapped.scan_call(LSTM, "cpu")  # torch's counter follows no module here
    given, dims = vmapped.mapped(tensors, vmapped.MAPPED[what], SIZE)
    wanted = vmapped.inside(run, given, dims)
    with FlopCounterMode(display=False) as counter:
        vmapped.close(vmapped.inside(run, given, dims), wanted)
    assert {"rnnc.call", "rnnc.call_backward"} <= {
        str(name) for name in counter.get_flop_counts()["Global"]
    }
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = {name: mode.from_tensor(tensor) for name, tensor in given.items()}
        found = vmapped.inside(run, fake, dims)
    assert {n: t.shape for n, t in found.items()} == {n: t.shape for n, t in wanted.items()}
