"""`rnnc.nn` under torch.compile and torch.export."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.nn import packed
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 6, 2, bidirectional=True)
        self.cell = nn.GRUCell(12, 5)

    def forward(self, x, hx=None):
        y, (h, c) = self.rnn(x, hx)
        return y, h, c, self.cell(y[0], self.cell(y[-1]))


@pytest.fixture(autouse=True)
def _reset():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("how", ["plain", "allow_rnn", "graph break"])
def test_compile(how, torch_twins):
    twin, model = Model().double(), Model().double()
    model.load_state_dict(twin.state_dict())
    rnnc.convert(model, isinstance=how != "plain", force=True)
    counters = torch._dynamo.utils.counters
    counters.clear()
    states = tuple(torch.randn(4, 2, 6, dtype=torch.float64) for _ in range(2))
    x = torch.randn(5, 2, 4, dtype=torch.float64)
    with torch._dynamo.config.patch(allow_rnn=how == "allow_rnn"):
        backend = "aot_eager" if how == "plain" else "eager"
        compiled = torch.compile(model, fullgraph=how != "graph break", backend=backend)
        for hx in (states, None) if how == "plain" else (states,):
            got = torch_twins.named(compiled, x, hx)
            for name, wanted in torch_twins.named(twin, x, hx).items():
                own = name.replace("d rnn", "d _orig_mod.rnn").replace("d cell", "d _orig_mod.cell")
                torch.testing.assert_close(got[own], wanted, msg=lambda m, n=name: f"{n}: {m}")
    assert torch._dynamo.config.allow_rnn is False
    assert not counters["graph_break"] or how == "graph break"


@pytest.mark.parametrize("subclasses", [True, False])
def test_export(subclasses):
    model, x = Model(), torch.randn(5, 2, 4)
    rnnc.convert(model, isinstance=subclasses, force=True)
    exported = torch.export.export(model, (x,))
    assert any("rnnc.call" in str(node.target) for node in exported.graph.nodes)
    for got, wanted in zip(exported.module()(x), model(x), strict=True):
        torch.testing.assert_close(got, wanted)


class Tagger(nn.Module):
    lengths = None

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 6, bidirectional=True), nn.Linear(12, 3)

    def forward(self, x):
        given = x * 2
        if self.lengths is not None:
            lengths = torch.tensor(self.lengths)
            given = nn.utils.rnn.pack_padded_sequence(given, lengths, enforce_sorted=False)
        y, h = self.rnn(given)
        return self.head(y if self.lengths is None else y.data), h


@pytest.mark.parametrize("rows", ["all", "packed"])
@pytest.mark.parametrize("subclasses", [True, False])
def test_no_function_of_a_call_is_a_graph_of_its_own(subclasses, rows, torch_twins, monkeypatch):
    """Dynamo traced each function of this package between two graphs, until it gave up."""
    twin, model = Tagger().double(), Tagger().double()
    model.load_state_dict(twin.state_dict())
    rnnc.convert(model, isinstance=subclasses, force=True)
    ran = []
    run = packed.run_ready
    monkeypatch.setattr(packed, "run_ready", lambda *a: ran.append(1) or run(*a))
    counters = torch._dynamo.utils.counters
    counters.clear()
    compiled = torch.compile(model, backend="eager")
    for lengths in ([5, 3], [2, 5], [4, 5]):
        model.lengths = twin.lengths = lengths if rows == "packed" else None
        x = torch.randn(5, 2, 4, dtype=torch.float64)
        got = torch_twins.named(compiled, x)
        for name, wanted in torch_twins.named(twin, x).items():
            own = name.replace("d rnn", "d _orig_mod.rnn").replace("d head", "d _orig_mod.head")
            torch.testing.assert_close(got[own], wanted, msg=lambda m, n=name: f"{n}: {m}")
    frames = dict(counters["frames"])
    assert frames["total"] < 12, frames
    assert len(ran) == (3 if rows == "packed" else 0)
