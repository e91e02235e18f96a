"""The other ways to call a module: states as `hx`, and all states of the last layer over time."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import PlanError

OPTIONS = {"num_layers": 2, "dtype": torch.float64}


def test_hx_is_another_name_of_states():
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 4, **OPTIONS)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    states = tuple(torch.randn(2, 2, 4, dtype=torch.float64) for _ in range(2))
    assert torch.equal(rnn(x, hx=states)[0], rnn(x, states)[0])
    assert torch.equal(rnn.step(x[0], hx=states)[0], rnn.step(x[0], states)[0])
    assert torch.equal(rnn.stepper(2, hx=states)(x[0]), rnn.step(x[0], states)[0].detach())
    for call in (
        rnn,
        lambda *a, **k: rnn.step(x[0], *a[1:], **k),
        lambda _, s, hx: rnn.stepper(2, s, hx=hx),
    ):
        with pytest.raises(rnnc.TensorError, match="hx\n  found:  states and hx\n  wanted: one"):
            call(x, states, hx=states)


def test_a_bare_tensor_is_the_only_state():
    rnn = rnnc.RNN(rnnc.cells.gru, 3, 4, **OPTIONS)
    x, h = torch.randn(5, 2, 3, dtype=torch.float64), torch.randn(2, 2, 4, dtype=torch.float64)
    wanted = rnn(x, (h,))[0]
    for _ in range(3):  # a known call too
        assert torch.equal(rnn(x, h)[0], wanted)
        assert torch.equal(rnn(x, hx=h)[0], wanted)
        assert torch.equal(rnn.step(x[0], h)[0], rnn.step(x[0], (h,))[0])
    assert torch.equal(rnn(x[:, 0], h[:, 0])[0], rnn(x[:, :1], h[:, :1])[0][:, 0])
    with pytest.raises(rnnc.TensorError, match="states\n  found:  a Tensor\n  wanted: a tuple"):
        rnnc.RNN(rnnc.cells.lstm, 3, 4)(torch.randn(5, 2, 3), hx=torch.randn(1, 2, 4))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("layers", [1, 3])
def test_all_states_are_those_of_single_steps(layers, backend):
    options = {"num_layers": layers, "heads": 2, "backend": backend, "dtype": torch.float64}
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 4, **options)
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    given = [torch.randn(layers, 2, 4, dtype=torch.float64) for _ in range(2)]
    y, last, over_time = rnn(x, given, all_states=True)
    states, found = given, []
    for x_t in x:
        states = rnn.step(x_t, states)[1]
        found.append([state[-1] for state in states])
    wanted = {n: torch.stack(s) for n, s in zip("hc", zip(*found, strict=True), strict=True)}
    assert list(over_time) == ["h", "c"]
    torch.testing.assert_close(y, wanted["h"])
    for got, own in zip(last, states, strict=True):
        torch.testing.assert_close(got, own)
    leaves = {"x": x, **dict(rnn.named_parameters())}
    seeds = {name: torch.randn_like(s) for name, s in wanted.items()}
    gradients = []
    for states_of in (over_time, wanted):
        torch.testing.assert_close(states_of["c"], wanted["c"])
        loss = sum((states_of[name] * seed).sum() for name, seed in seeds.items())
        gradients.append(torch.autograd.grad(loss, list(leaves.values())))
    for name, got, own in zip(leaves, *gradients, strict=True):
        torch.testing.assert_close(got, own, msg=lambda text, name=name: f"{name} {text}")


def test_all_states_of_both_directions_lie_beside_each_other():
    rnn = rnnc.RNN(rnnc.cells.slstm, 3, 4, bidirectional=True, batch_first=True)
    x = torch.randn(2, 5, 3)
    y, last, over_time = rnn(x, all_states=True)
    wanted, wanted_last = rnn(x)
    torch.testing.assert_close(y, wanted)
    assert torch.equal(over_time["h"], y)
    for name, own, got in zip(over_time, last, wanted_last, strict=True):
        torch.testing.assert_close(own, got)
        assert over_time[name].shape == (2, 5, 8)
        assert torch.equal(over_time[name][:, -1, :4], own[0])
        assert torch.equal(over_time[name][:, 0, 4:], own[1])
    one, one_last, one_over_time = rnn(x[0], all_states=True)
    assert torch.equal(one, y[0])
    assert torch.equal(one_over_time["c"], over_time["c"][0])
    assert torch.equal(one_last[1], last[1][:, 0])


def test_all_states_with_dropout_compiled_and_refused():
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 4, num_layers=2, dropout=1.0)
    x = torch.randn(5, 2, 3)
    y, _, over_time = rnn(x, all_states=True)
    _, _, silent_over_time = rnn(torch.zeros_like(x), all_states=True)
    assert torch.equal(over_time["c"], silent_over_time["c"])
    rnn.eval()
    y, _, over_time = rnn(x, all_states=True)
    torch._dynamo.reset()  # it leaves out frames in which a compilation before met a graph break
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    got, _, got_over_time = compiled(x, all_states=True)
    torch.testing.assert_close(got, y)
    torch.testing.assert_close(got_over_time["c"], over_time["c"])
    with pytest.raises(PlanError, match="all states, with which layers run one by one"):
        rnnc.RNN(rnnc.cells.lstm, 3, 4, num_layers=2, layers="wavefront")(x, all_states=True)


class Traced(torch.nn.Module):
    """A model that calls a module in several ways."""

    def __init__(self):
        super().__init__()
        self.rnn = rnnc.RNN(rnnc.cells.gru, 3, 4)

    def forward(self, x, h, lengths):
        y, last = self.rnn(x)
        again, _, every = self.rnn(x, last, lengths=lengths, all_states=True)
        return y + again + self.rnn(x, hx=h)[0] + every["h"]


def test_a_call_is_one_node_of_a_graph_of_fx():
    model = Traced()
    inputs = torch.randn(5, 2, 3), torch.randn(1, 2, 4), torch.tensor([2, 5])
    graph = torch.fx.symbolic_trace(model)
    assert [n.target for n in graph.graph.nodes if n.op == "call_module"] == ["rnn"] * 3
    torch.testing.assert_close(graph(*inputs), model(*inputs), rtol=0, atol=0)


@pytest.mark.parametrize("room", [rnnc, rnnc.nn])
def test_a_graph_of_fx_of_the_module_itself_is_refused(room):
    rnn = rnnc.RNN(rnnc.cells.gru, 3, 4) if room is rnnc else rnnc.nn.GRU(3, 4)
    with pytest.raises(rnnc.TensorError, match="Sequential") as caught:
        torch.fx.symbolic_trace(rnn)
    graph = torch.fx.symbolic_trace(torch.nn.Sequential(rnn))  # what the error says to write
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(graph(x), rnn(x), rtol=0, atol=0)
    assert "found:  a" in str(caught.value)
