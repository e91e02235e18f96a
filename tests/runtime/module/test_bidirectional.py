"""Modules that run in both directions of time: names, shapes, messages, each direction alone."""

from __future__ import annotations

import copy
import io
from contextlib import contextmanager

import pytest
import rnnc
import torch
from rnnc.errors import TensorError
from rnnc.runtime.cpu.target import CpuTarget
from rnnc.runtime.targets.registry import register_target, unregister_target


def module(name="gru", **options):
    return rnnc.RNN(rnnc.cells.get(name), 4, 6, bidirectional=True, **options)


def test_names_and_shapes_are_those_of_torch():
    ours, theirs = module(num_layers=2), torch.nn.GRU(4, 6, 2, bidirectional=True)
    inputs = {
        name: weight.shape[-1] for name, weight in ours.named_parameters() if "weight_ih" in name
    }
    assert inputs == {
        name: weight.shape[-1] for name, weight in theirs.named_parameters() if "weight_ih" in name
    }
    assert list(inputs) == [f"weight_ih_l{end}" for end in ("0", "0_reverse", "1", "1_reverse")]
    x = torch.randn(5, 3, 4)
    for y, last in (ours(x), theirs(x)):
        assert y.shape == (5, 3, 12)
        assert torch.Size([4, 3, 6]) == (last[0] if isinstance(last, tuple) else last).shape


def test_params_and_diagonal_weights_have_a_reverse():
    names = dict(rnnc.RNN(rnnc.cells.indrnn, 4, 6, bidirectional=True).named_parameters())
    assert {"weight_hd_l0", "weight_hd_l0_reverse"} <= set(names)
    cell = next(rnnc.cells.get(n) for n in rnnc.cells.names() if rnnc.cells.get(n).params)
    names = dict(rnnc.RNN(cell, 4, 6, bidirectional=True).named_parameters())
    assert {f"{cell.params[0].name}_l0", f"{cell.params[0].name}_l0_reverse"} <= set(names)


@pytest.mark.parametrize("training", [True, False])
def test_each_direction_is_a_module_of_its_own(training):
    both, x = module("lstm"), torch.randn(7, 3, 4)
    alone = [rnnc.RNN(rnnc.cells.lstm, 4, 6) for _ in range(2)]
    weights = both.state_dict()
    for one, suffix in zip(alone, ("", "_reverse"), strict=True):
        one.load_state_dict({name: weights[name + suffix] for name in one.state_dict()})
    with torch.set_grad_enabled(training):
        y, last = both(x)
        forward, ahead = alone[0](x)
        backward, behind = alone[1](x.flip(0))
    assert torch.equal(y[..., :6], forward)
    assert torch.equal(y[..., 6:], backward.flip(0))
    for state, first, second in zip(last, ahead, behind, strict=True):
        assert torch.equal(state, torch.cat([first, second]))


def test_an_unbatched_sequence_and_batch_first():
    rnn, x = module(batch_first=True), torch.randn(3, 5, 4)
    y, (last,) = rnn(x)
    alone, (own,) = rnn(x[1])
    torch.testing.assert_close(alone, y[1])
    torch.testing.assert_close(own, last[:, 1])


def test_copies_pickles_and_parameters_drawn_anew():
    rnn, x = module(num_layers=2), torch.randn(5, 2, 4)
    y, _ = rnn(x)
    assert torch.equal(copy.deepcopy(rnn)(x)[0], y)
    file = io.BytesIO()
    torch.save(rnn, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x)[0], y)
    before = rnn.weight_hh_l1_reverse.clone()
    rnn.reset_parameters()
    assert not torch.equal(rnn.weight_hh_l1_reverse, before)
    assert "bidirectional=True" in repr(rnn)


def test_dropout_between_layers_reaches_both_directions():
    rnn = module(num_layers=2, dropout=1.0)
    below = torch.zeros(5, 2, 12)
    y, _ = rnn(torch.randn(5, 2, 4))
    above = rnnc.RNN(rnnc.cells.gru, 12, 6, bidirectional=True)
    names = [name for name, _ in above.named_parameters()]
    weights = rnn.state_dict()
    above.load_state_dict({name: weights[name.replace("_l0", "_l1")] for name in names})
    torch.testing.assert_close(y, above(below)[0])


@pytest.mark.parametrize("save", ["gates", "states"])
def test_compiled(save):
    rnn = module("lstm", num_layers=2, save=save)
    x = torch.randn(5, 3, 4, requires_grad=True)
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    found = []
    for run in (rnn, compiled):
        y, last = run(x)
        wanted = [x, *rnn.parameters()]
        found.append([y, *last, *torch.autograd.grad(y.sin().sum() + last[1].sum(), wanted)])
    for eager, traced in zip(*found, strict=True):
        torch.testing.assert_close(traced, eager)


def test_states_of_one_direction_are_refused():
    with pytest.raises(TensorError) as error:
        module()(torch.randn(5, 3, 4), [torch.zeros(1, 3, 6)])
    assert "(2 * num_layers, B, hidden_size)" in str(error.value)


class Noted(CpuTarget):
    """Notes in which lane each direction runs."""

    def __init__(self):
        self.notes, self.place = [], "after"

    @contextmanager
    def _in(self, place):
        before, self.place = self.place, place
        yield self
        self.place = before

    def lanes(self, like, steps):
        return self._in("between")

    def lane(self, number):
        return self._in(number)

    def _note(self, what, *given):
        self.notes.append((what, self.place))
        return getattr(super(), what)(*given)

    def forward(self, call, inputs, donated=False):
        return self._note("forward", call, inputs, donated)

    def backward(self, *given):
        return self._note("backward", *given)

    def project_gradients(self, *given):
        return self._note("project_gradients", *given)


def test_each_direction_has_a_lane():
    target = Noted()
    register_target("noted", target)
    try:
        rnn = module("lstm", num_layers=2, backend="noted")
        y, _ = rnn(torch.randn(5, 3, 4))
        y.sum().backward()
    finally:
        unregister_target("noted")
    lanes = [("forward", 0), ("forward", 1)] * 2
    # The gradients of the layer's input are sums of both directions.
    sweep = [("backward", 0), ("backward", 1), *[("project_gradients", "after")] * 2]
    assert target.notes == lanes + sweep * 2
