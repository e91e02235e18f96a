"""`save="states"`: what stays in memory for the backward, and the bits of its results."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State, sigmoid, tanh

B, T, INPUT, HIDDEN = 3, 6, 5, 16


@rnnc.cell
def decaying(g: Gate, z: Gate, rate: Input, h: State, s: State):
    """Two states, and an input without weights."""
    return h + rate * sigmoid(z) * (tanh(g) - h), s + rate * z


def kept(run, own):
    """What a call gives, and the numbers that it keeps for a backward, but for tensors in `own`."""
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = run()
    for tensor in own:
        storages.pop(tensor.untyped_storage().data_ptr(), None)
    elements = [t.untyped_storage().nbytes() // t.element_size() for t in storages.values()]
    return found, sum(elements)


def both(run, leaves):
    """The numbers that a call keeps by either choice; the bits of both must be the same."""
    counts, results = [], []
    for save in ("gates", "states"):
        outputs, count = kept(lambda save=save: run(save), leaves)
        counts.append(count)
        seeds = [torch.linspace(-1, 1, o.numel(), dtype=o.dtype).view(o.shape) for o in outputs]
        gradients = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
        results.append([*outputs, *gradients])
    for one, other in zip(*results, strict=True):
        assert one is other is None or torch.equal(one, other)
    return counts


SLOW = ("gru", "slstm", "elman")
NAMES = ["lstm", "fastgrnn", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
RESET = torch.tensor([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]).bool()
CALLS = {
    "plain": {},
    "lengths": {"lengths": torch.tensor([T, 2, 0])},
    "resets": {"reset": RESET, "lengths": torch.tensor([T, 4, 5])},
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("both_ways", [False, True], ids=("forwards", "both ways"))
@pytest.mark.parametrize("name", NAMES)
def test_a_module_keeps_its_states_alone(name, both_ways, call):
    cell, layers = rnnc.cells.get(name), 2
    options = {"num_layers": layers, "bidirectional": both_ways, "dtype": torch.float64}
    rnn = rnnc.RNN(cell, INPUT, HIDDEN, heads=2, backend="cpu", **options)
    x = torch.randn(T, B, INPUT, dtype=torch.float64, requires_grad=True)

    def run(save):
        rnn.save = save
        y, last = rnn(x, **CALLS[call])
        return [y, *last]

    _, count = both(run, [x, *rnn.parameters()])
    parts = layers * (1 + both_ways)
    masks = B * (3 * T + 8)  # how rows take steps, in bytes, which count as numbers here
    most = len(cell.states) * parts * T * B * HIDDEN
    assert count <= most + (masks if call != "plain" else 0)


@pytest.mark.parametrize("steps", [0, 1, 2, T])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_computes_the_gates_again(reverse, steps):
    kind = {"dtype": torch.float64, "requires_grad": True}
    wx, R = torch.randn(B, steps, 2, 8, 2, **kind), torch.randn(2, 2, 8, 8, **kind)
    b, rate = torch.randn(2, 2, 8, **kind), torch.rand(B, steps, **kind)
    states = [torch.randn(B, 2, 8, **kind) for _ in decaying.states]

    def run(save):
        options = {"inputs": {"rate": rate}, "save": save, "reverse": reverse, "backend": "cpu"}
        over_time, last = rnnc.scan(decaying, wx, R, b, states, **options)
        return [*over_time, *last]

    both(run, [wx, R, b, rate, *states])


def test_a_sequence_of_one_step_keeps_no_gates():
    rnn = rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, save="states", backend="cpu")
    x = torch.randn(1, B, INPUT, requires_grad=True)
    _, count = kept(lambda: rnn(x), [x, *rnn.parameters()])
    assert count <= len(rnn.cell.states) * B * HIDDEN


def test_a_compiled_module_keeps_its_states_alone():
    rnn = rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, num_layers=2, backend="cpu")
    x = torch.randn(T, B, INPUT, requires_grad=True)

    def run(save):
        rnn.save = save
        y, last = torch.compile(rnn, backend="aot_eager", fullgraph=True)(x)
        return [y, *last]

    _, count = both(run, [x, *rnn.parameters()])
    assert count <= 2 * 2 * T * B * HIDDEN
