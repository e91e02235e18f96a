"""A single step: as a sequence of one; and which kernels and products of a GPU it takes."""

from __future__ import annotations

import weakref

import pytest
import rnnc
import torch

LAYERS = 2


def module_of(cell, size=5, hidden=12, heads=3, layers=LAYERS, **options):
    options = {"dtype": torch.float64} | options
    return rnnc.RNN(cell, size, hidden, heads=heads, num_layers=layers, **options)


def states_of(rnn, batch):
    dtype = next(rnn.parameters()).dtype
    shape = (rnn.num_layers, batch, rnn.hidden_size)
    return [0.5 + torch.rand(shape, dtype=dtype) for _ in rnn.cell.states]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", ["lstm", "gru", "indrnn", "nas_cell"])
def test_a_step_is_a_sequence_of_one(name, given):
    rnn = module_of(rnnc.cells.get(name))
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    states = [s.requires_grad_() for s in states_of(rnn, 4)] if given else None
    leaves = [x, *(states or []), *rnn.parameters()]
    y, last = rnn.step(x, states)
    wanted, wanted_last = rnn(x.unsqueeze(0), states)
    torch.testing.assert_close(y, wanted[0])
    seeds = [torch.randn_like(t) for t in (y, *last)]
    found = torch.autograd.grad([y, *last], leaves, seeds)
    others = torch.autograd.grad([wanted[0], *wanted_last], leaves, seeds)
    for new, old in zip((*last, *found), (*wanted_last, *others), strict=True):
        torch.testing.assert_close(new, old)


def test_one_sequence_without_a_batch():
    rnn = module_of(rnnc.cells.lstm)
    x = torch.randn(5, dtype=torch.float64)
    y, last = rnn.step(x)
    wanted, wanted_last = rnn.step(x.unsqueeze(0))
    assert y.shape == (12,)
    assert [s.shape for s in last] == [(LAYERS, 12)] * 2
    torch.testing.assert_close(y, wanted[0])
    torch.testing.assert_close(last[1], wanted_last[1][:, 0])


def test_dropout_between_layers_in_training_alone():
    rnn = module_of(rnnc.cells.lstm, dropout=1.0)
    x, states = torch.randn(3, 5, dtype=torch.float64), states_of(rnn, 3)
    whole = rnn.step(x, states)[0]
    assert not torch.equal(whole, rnn.eval().step(x, states)[0])
    assert torch.equal(rnn.step(x, states)[0], rnn.step(x, states)[0])


@pytest.mark.parametrize("batch", [1, 8, 32])
@pytest.mark.parametrize("name", ["lstm", "gru", "indrnn"])
def test_one_kernel_per_layer_for_few_rows(name, batch, simulated_gpu):
    rnn = module_of(rnnc.cells.get(name), backend="simulated")
    with torch.no_grad():
        y, last = rnn.step(torch.randn(batch, 5, dtype=torch.float64), states_of(rnn, batch))
    assert y.shape == (batch, 12)
    assert {s.shape for s in last} == {(LAYERS, batch, 12)}
    assert simulated_gpu == ["rnnc_step_forward"] * LAYERS


@pytest.mark.parametrize(
    ("name", "heads", "products"),
    [("lstm", 1, 2), ("lstm", 3, 5), ("gru", 1, 2), ("gru", 3, 4), ("indrnn", 3, 1)],
)
def test_products_as_stored_and_a_kernel_per_layer_for_many_rows(
    name, heads, products, simulated_gpu
):
    rnn = module_of(rnnc.cells.get(name), heads=heads, backend="simulated")
    with torch.no_grad():
        rnn.step(torch.randn(33, 5, dtype=torch.float64))
    layer = [*["product forward"] * products, "rnnc_step_forward"]
    assert simulated_gpu == layer * LAYERS


@pytest.mark.parametrize("given", [True, False])
def test_one_node_of_autograd_and_its_products(given, simulated_gpu):
    rnn = module_of(rnnc.cells.lstm, heads=1, backend="simulated")
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    states = [s.requires_grad_() for s in states_of(rnn, 2)] if given else None
    y, last = rnn.step(x, states)
    assert y.grad_fn is last[0].grad_fn
    assert type(y.grad_fn).__name__ == "NodeBackward"
    simulated_gpu.clear()
    leaves = [x, *(states or []), *rnn.parameters()]
    found = torch.autograd.grad(y.sum(), leaves)
    assert [g.shape for g in found] == [t.shape for t in leaves]
    to_states = ["product backward"] if given else []
    layer = ["rnnc_step_backward", *to_states, "product weights", "product backward"]
    assert simulated_gpu == [*layer, "product weights"] * LAYERS


def test_frozen_weights_have_no_products(simulated_gpu):
    rnn = module_of(rnnc.cells.gru, heads=1, layers=1, backend="simulated").requires_grad_(False)
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    y, _ = rnn.step(x)
    simulated_gpu.clear()
    torch.autograd.grad(y.sum(), x)
    assert simulated_gpu == ["rnnc_step_backward", "product backward"]


def test_hooks_on_saved_tensors_that_change_shapes_are_found(simulated_gpu):
    rnn = module_of(rnnc.cells.elman, layers=1, backend="simulated")
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t[..., :1]):
        y, _ = rnn.step(x)
    assert packed
    with pytest.raises(rnnc.TensorError, match="saved tensor"):
        torch.autograd.grad(y.sum(), x)


@pytest.mark.parametrize("layers", [1, 2])
def test_states_changed_in_place_leave_the_gradient(layers):
    rnn = module_of(rnnc.cells.lstm, layers=layers)
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad(rnn.step(x)[0].sum(), x)
    y, last = rnn.step(x)
    for state in last:
        state.detach().zero_()
    for _ in range(2):  # the second one after the node has given up its states
        (found,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        assert torch.equal(found, wanted)


def test_a_step_under_hooks_keeps_no_states():
    rnn = module_of(rnnc.cells.lstm)
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad(rnn.step(x)[0].sum(), x)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y, last = rnn.step(x)
    assert kept
    states = [weakref.ref(state.untyped_storage()) for state in last]
    del last
    assert [state() for state in states] == [None, None]
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], wanted)


def test_an_input_changed_in_place_is_found(simulated_gpu):
    rnn = module_of(rnnc.cells.lstm, layers=1, backend="simulated")
    x = torch.randn(2, 5, dtype=torch.float64)
    y, _ = rnn.step(x)
    x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_batch_without_rows(simulated_gpu):
    rnn = module_of(rnnc.cells.lstm, backend="simulated")
    x = torch.randn(0, 5, dtype=torch.float64, requires_grad=True)
    y, _ = rnn.step(x)
    assert y.shape == (0, 12)
    (d_x,) = torch.autograd.grad(y.sum(), x)
    assert d_x.shape == x.shape
    assert simulated_gpu == []


def test_errors_of_a_step_name_what_is_wrong():
    rnn = module_of(rnnc.cells.lstm)
    with pytest.raises(rnnc.TensorError, match=r"shape \(4, 6\)"):
        rnn.step(torch.randn(4, 6, dtype=torch.float64))
    with pytest.raises(rnnc.TensorError, match="states"):
        rnn.step(torch.randn(4, 5, dtype=torch.float64), states_of(rnn, 3))


def test_a_step_needs_one_direction():
    rnn = module_of(rnnc.cells.lstm, bidirectional=True)
    with pytest.raises(rnnc.TensorError, match="a bidirectional module"):
        rnn.step(torch.randn(4, 5, dtype=torch.float64))


def remembered(rnn, x):
    """`forward` then knows calls like this one."""
    for _ in range(2):
        rnn(x)
    return rnn


@pytest.mark.parametrize("steps", [1, 3])
def test_a_known_sequence_answers_for_no_step(steps):
    x = torch.randn(steps, 4, 5, dtype=torch.float64)
    with pytest.raises(rnnc.TensorError, match=r"wanted: \(B, input\) or \(input\)"):
        remembered(module_of(rnnc.cells.lstm), x).step(x)
    with pytest.raises(rnnc.TensorError, match="a bidirectional module"):
        remembered(module_of(rnnc.cells.lstm, bidirectional=True), x).step(x)


def test_a_known_step_answers_for_no_sequence():
    rnn = module_of(rnnc.cells.lstm)
    x = torch.randn(4, 5, dtype=torch.float64)
    wanted = rnn(x)[0]
    for _ in range(2):
        rnn.step(x)
    assert torch.equal(rnn(x)[0], wanted)
