"""`rnnc.nn.LSTMCell`, `GRUCell` and `RNNCell` against torch's cells with the same weights."""

from __future__ import annotations

import copy
import pickle

import pytest
import rnnc
import torch
from rnnc.runtime.nn import sequences
from torch import nn

KINDS = {
    "LSTMCell": {},
    "GRUCell": {},
    "RNNCell": {"nonlinearity": "tanh"},
    "RNNCell relu": {"nonlinearity": "relu"},
}
EACH = pytest.mark.parametrize("kind", KINDS)


def pair(kind, *sizes, **options):
    """A cell of ours and torch's with the same weights."""
    name, options = kind.split()[0], KINDS[kind] | options
    theirs, ours = getattr(nn, name)(*sizes, **options), getattr(rnnc.nn, name)(*sizes, **options)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def states_of(kind, *shape, dtype=torch.float64):
    first, second = torch.randn(2, *shape, dtype=dtype)
    return (first, second) if kind == "LSTMCell" else first


@pytest.fixture
def by_kernels(monkeypatch):
    """Torch's own forward must not run."""

    def refuse(*_):
        raise AssertionError("torch's own forward ran")

    monkeypatch.setattr(sequences, "run_torch", refuse)


@EACH
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (70,)])
def test_against_torch(kind, bias, batch, by_kernels, torch_twins):
    ours, theirs = pair(kind, 5, 24, bias=bias, dtype=torch.float64)
    x = torch.randn(*batch, 5, dtype=torch.float64)
    for _ in range(3):  # the third comes again
        torch_twins.assert_same(ours, theirs, x, states_of(kind, *batch, 24))
        torch_twins.assert_same(ours, theirs, x)


@EACH
def test_steps_over_time(kind, by_kernels):
    ours, theirs = pair(kind, 4, 8)
    xs = torch.randn(5, 2, 4)
    found = []
    for cell in (ours, theirs):
        hx = None
        for x in xs:
            hx = cell(x, hx)
        (hx[0] if isinstance(hx, tuple) else hx).square().sum().backward()
        found.append(
            [*(hx if isinstance(hx, tuple) else [hx]), *[p.grad for p in cell.parameters()]]
        )
    for got, wanted in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(ours(xs[0]), theirs(xs[0]))


@EACH
def test_copies_and_state_dicts(kind):
    ours, theirs = pair(kind, 4, 8)
    x = torch.randn(2, 4)
    for _ in range(2):
        wanted = ours(x)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        torch.testing.assert_close(other(x), wanted, rtol=0, atol=0)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    assert type(ours).__module__ == "rnnc.nn"


@EACH
def test_what_torch_refuses(kind):
    ours, theirs = pair(kind, 4, 8)
    two = (lambda s: (s, s)) if kind == "LSTMCell" else (lambda s: s)
    x = torch.randn(2, 4)
    calls = [
        (torch.randn(2, 5),),
        (torch.randn(1, 2, 4),),
        (x.double(),),
        (x, two(torch.zeros(3, 8))),
        (x, two(torch.zeros(2, 7))),
        (x, two(torch.zeros(1, 2, 8))),
        (x, two(torch.zeros(2, 8, dtype=torch.float64))),
    ]
    for call in calls:
        with pytest.raises((RuntimeError, ValueError)) as wanted:
            theirs(*call)
        with pytest.raises(type(wanted.value)) as got:
            ours(*call)
        assert str(got.value) == str(wanted.value)


def test_an_unknown_nonlinearity():
    with pytest.raises(RuntimeError, match="Unknown nonlinearity: sin"):
        rnnc.nn.RNNCell(3, 4, nonlinearity="sin")(torch.randn(2, 3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_in_a_script_and_in_a_trace():
    ours, theirs = pair("GRUCell", 4, 8)
    x = torch.randn(2, 4)
    for other in (torch.jit.script(ours), torch.jit.trace(ours, (x,))):
        torch.testing.assert_close(other(x), theirs(x))
