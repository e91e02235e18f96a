"""`rnnc.warmup` compiles what the first call needs, and runs nothing."""

from __future__ import annotations

import copy

import pytest
import rnnc
import torch
from rnnc.runtime.cpu import compile as cpu_compile
from rnnc.runtime.cpu import kernels, target
from torch import nn


@pytest.fixture
def loaded(monkeypatch):
    """The plans of the libraries that are loaded, without compiling any."""
    found = []
    monkeypatch.setattr(target, "cpu_library", lambda cell, plan: found.append((cell.name, plan)))
    monkeypatch.setattr(kernels, "cpu_library", lambda *_: pytest.fail("a kernel runs"))
    return found


class Tagger(nn.Module):
    def __init__(self, rnn, features, **options):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(10, 4), rnn
        self.head, self.options = nn.Linear(features, 3), options

    def forward(self, tokens):
        y, _ = self.rnn(self.embedding(tokens), **self.options)[:2]
        return self.head(y)


TOKENS = torch.empty(7, 5, dtype=torch.long, device="meta")


def test_a_layer_by_its_shape(loaded):
    rnn = rnnc.RNN(rnnc.cells.slstm, 4, 8, heads=2, num_layers=2, bidirectional=True)
    before = copy.deepcopy(rnn.state_dict())
    assert rnnc.warmup(rnn, (7, 5, 4)) == ["slstm, 2 x 4, batch 5, float32 on cpu, both directions"]
    assert [(name, plan.reverse, plan.dtype) for name, plan in loaded] == [
        ("slstm", False, "float32"),
        ("slstm", True, "float32"),
    ]
    assert "forward" not in vars(rnn)
    for name, weight in rnn.state_dict().items():
        assert torch.equal(weight, before[name])


def test_shapes_inside_of_a_model(loaded):
    layers = [rnnc.RNN(rnnc.cells.gru, 4, 6, batch_first=True), rnnc.nn.LSTM(4, 6)]
    told = [rnnc.warmup(Tagger(each, 6).double(), TOKENS) for each in layers]
    assert told[0] == ["gru, 1 x 6, batch 7, float64 on cpu"]
    assert told[1] == ["lstm, 1 x 6, batch 5, float64 on cpu"]
    assert all("forward" not in vars(each) for each in layers)


def test_lengths_dtypes_and_results_of_all_kinds(loaded):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, proj_size=2, bidirectional=True)
    model = Tagger(rnn, 4, lengths=torch.tensor([7, 3, 1, 0, 7]), all_states=True)
    (line,) = rnnc.warmup(model, TOKENS, dtype=torch.bfloat16)
    assert line.endswith("batch 5, bfloat16 on cpu, both directions, with lengths or resets")
    assert [(plan.masked, plan.dtype) for _, plan in loaded] == [(True, "float32")] * 2
    loaded.clear()
    with torch.autocast("cpu", torch.bfloat16):
        (line,) = rnnc.warmup(Tagger(rnnc.RNN(rnnc.cells.lstm, 4, 6), 6), TOKENS)
    assert "bfloat16" in line


def test_what_it_refuses():
    rnn = rnnc.RNN(rnnc.cells.gru, 4, 8)
    for module, given, match in (
        (nn.Linear(2, 2), (3, 2), "recurrent layers"),
        (rnn, "text", "a shape, or a tensor"),
        (rnn, (4,), "a tensor of"),
        (rnn, (3, 2, 5), r"shape \(3, 2, 5\)\n  wanted: a tensor of \(T, B, 4\)\n  write"),
        (rnnc.nn.GRU(4, 8, batch_first=True), (3, 2, 5), r"wanted: a tensor of \(B, T, 4\)"),
        (nn.Sequential(nn.Linear(2, 5), rnn), (3, 2, 2), r"shape \(3, 2, 5\)"),
        (rnn, (3, -2, 4), "sizes of at least 0"),
        (5, (3, 2, 4), "module\n  found:  an int\n  wanted: an nn.Module"),
    ):
        with pytest.raises(rnnc.TensorError, match=match):
            rnnc.warmup(module, given)
    with pytest.raises(rnnc.TensorError, match="found:  None\n  wanted: a tensor of"):
        rnnc.warmup(rnn)

    class Stops(Tagger):
        def forward(self, tokens):
            return super().forward(tokens) if tokens.sum() > 0 else tokens

    model = Stops(rnn, 8)
    with pytest.raises(rnnc.TensorError, match="tensors without values"):
        rnnc.warmup(model, TOKENS)
    assert "forward" not in vars(rnn)
    assert rnnc.warmup(rnnc.RNN(rnnc.cells.gru, 4, 8, backend="reference"), (3, 2, 4)) == []


def test_the_first_call_compiles_nothing_more(tmp_path, monkeypatch, compiler):
    """In a cache of its own."""
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    cpu_compile.cpu_library.cache_clear()
    rnn = rnnc.RNN(rnnc.cells.elman, 4, 8)
    rnnc.warmup(rnn, (3, 2, 4))
    files = sorted(tmp_path.glob("*.so"))
    assert len(files) == 1
    rnn(torch.randn(3, 2, 4))[0].sum().backward()
    assert sorted(tmp_path.glob("*.so")) == files
    cpu_compile.cpu_library.cache_clear()


def test_without_a_compiler_it_says_so_each_time(monkeypatch):
    def refuse(*_):
        raise rnnc.NoCompilerError("C++ compiler", "no `c++` on the PATH", "one", "install one")

    monkeypatch.setattr(target.CpuTarget, "find_compiler", refuse)
    layers = rnnc.RNN(rnnc.cells.gru, 4, 8), rnnc.nn.LSTM(8, 6)
    model = nn.Sequential(layers[0], Second(), layers[1])
    for _ in range(2):
        with pytest.warns(RuntimeWarning) as said:
            assert rnnc.warmup(model, (3, 2, 4)) == []
        assert [str(w.message) for w in said] == [
            "rnnc.warmup compiles nothing for gru, 1 x 8, batch 2, float32 on cpu;"
            " lstm, 1 x 6, batch 2, float32 on cpu:\nC++ compiler\n"
            "  found:  no `c++` on the PATH\n  wanted: one\n  write:  install one"
        ]
    with pytest.raises(rnnc.NoCompilerError):
        rnnc.warmup(rnnc.RNN(rnnc.cells.gru, 4, 8, backend="cpu"), (3, 2, 4))


class Second(nn.Module):
    def forward(self, results):
        return results[0]
