"""A projected `rnnc.nn.LSTM`: on the kernels where they are faster, with torch's results."""

from __future__ import annotations

from itertools import product

import pytest
import rnnc
import torch
from rnnc.runtime.nn import projected, sequences
from rnnc.runtime.nn.conversion.faster import kernels_project
from torch import nn

INPUT, HIDDEN, SIZE = 5, 12, 4


@pytest.fixture
def served(monkeypatch):
    """Which calls the kernels served."""
    found = []
    for name, by_kernels in {"run_projected": True, "run_without_kernels": False}.items():

        def run(*arguments, own=getattr(sequences, name), by_kernels=by_kernels):
            found.append(by_kernels)
            return own(*arguments)

        monkeypatch.setattr(sequences, name, run)
    return found


@pytest.fixture
def always(monkeypatch):
    """Kernels wherever they can."""
    monkeypatch.setattr(projected, "kernels_project", lambda *_: True)


def pair(layers=1, **options):
    modules = [
        cls(INPUT, HIDDEN, layers, proj_size=SIZE, **options) for cls in (nn.LSTM, rnnc.nn.LSTM)
    ]
    modules[1].load_state_dict(modules[0].state_dict())
    return modules


def derivatives(module, x, hx):
    """Results, and all first and second derivatives."""
    x = x.clone().requires_grad_()
    hx = None if hx is None else [state.clone().requires_grad_() for state in hx]
    y, (h, c) = module(x, None if hx is None else tuple(hx))
    inputs = [x, *module.parameters(), *(hx or ())]
    loss = (y * y.cos()).sum() + h.square().sum() + c.sin().sum()
    first = torch.autograd.grad(loss, inputs, create_graph=True)
    return y, h, c, first, torch.autograd.grad(sum(g.square().sum() for g in first), inputs)


CASES = [
    (both, layers, bias, kind, given)
    for both, layers, bias, kind, given in product(
        (False, True), (1, 3), (True, False), ("TB", "BT", "T"), (False, True)
    )
    if not (both and given)
]


@pytest.mark.parametrize(("both", "layers", "bias", "kind", "given"), CASES)
def test_against_torch(served, always, both, layers, bias, kind, given):
    options = {"bidirectional": both, "bias": bias, "batch_first": kind == "BT"}
    theirs, ours = pair(layers, **options, dtype=torch.float64)
    batch = () if kind == "T" else (3,)
    x = torch.randn(*{"TB": (7, 3), "BT": (3, 7), "T": (7,)}[kind], INPUT, dtype=torch.float64)
    hx = [torch.randn(layers, *batch, n, dtype=torch.float64) for n in (SIZE, HIDDEN)]
    results = [derivatives(module, x, hx if given else None) for module in (ours, theirs)]
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)
    assert served == [True]


def test_what_torchs_own_forward_runs(served, always):
    theirs, ours = pair(bidirectional=True)
    states = torch.randn(2, 3, SIZE), torch.randn(2, 3, HIDDEN)
    x = torch.randn(7, 3, INPUT)
    torch.testing.assert_close(ours(x, states), theirs(x, states), rtol=0, atol=0)
    theirs, ours = pair()
    torch.testing.assert_close(ours(x[:1]), theirs(x[:1]), rtol=0, atol=0)
    assert served == [False, False]
    for wrong in ((x[..., 1:], None), (x, (states[0], states[0])), (x, (states[1][:1], x))):
        for module in (ours, theirs):
            with pytest.raises(RuntimeError):
                module(*wrong)
    with pytest.raises(rnnc.TensorError, match="proj_size"):
        ours(x, lengths=torch.tensor([7, 3, 1]))


def test_where_kernels_are_faster(served):
    _, ours = pair()
    large = rnnc.nn.LSTM(INPUT, 257, proj_size=SIZE)
    for module, batch in ((ours, 3), (ours, 4096), (large, 1)):
        module(torch.randn(3, batch, INPUT))
        with torch.no_grad():
            module(torch.randn(3, batch, INPUT))
    assert served == [True, True, False, False, False, False]


def test_the_rule():
    f32, f64 = torch.float32, torch.float64
    assert kernels_project("cpu", f32, 128, 4, False)
    assert not kernels_project("cpu", f32, 128, 5, False)
    assert kernels_project("cpu", f32, 128, 32, True)
    assert not kernels_project("cpu", f32, 257, 1, True)
    assert not kernels_project("cpu", f64, 16, 1, True)
    assert kernels_project("cuda", f32, 1024, 64, False)
    assert not kernels_project("cuda", f64, 16, 1, True)


def test_dropout_between_layers(served):
    ours = rnnc.nn.LSTM(INPUT, HIDDEN, 2, proj_size=SIZE, dropout=1.0)
    x = torch.randn(4, 2, INPUT)
    y, _ = ours(x)
    torch.testing.assert_close(y, ours(x + 1)[0])
    assert not torch.equal(ours.eval()(x)[0], ours(x + 1)[0])
    assert all(served)


def test_warmup_compiles_the_recurrence():
    module = rnnc.nn.LSTM(INPUT, HIDDEN, proj_size=SIZE)
    assert rnnc.warmup(module, (7, 3, INPUT)) == ["lstm, 1 x 12, batch 3, float32 on cpu"]
    large = rnnc.nn.LSTM(INPUT, 257, proj_size=SIZE)
    assert rnnc.warmup(large, (7, 3, INPUT)) == []
