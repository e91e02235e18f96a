"""Where no kernel serves, torch's own forward runs on the same parameters."""

from __future__ import annotations

import re

import pytest
import rnnc
import torch
from rnnc.errors import NoCompilerError
from rnnc.runtime.cpu.target import CpuTarget
from rnnc.runtime.nn import own
from rnnc.runtime.process.caller import warn_once
from torch import nn
from torch.autograd import forward_ad

NAMES = ["LSTM", "GRU", "RNN"]
EACH = pytest.mark.parametrize("name", NAMES)


def pair(name, *sizes, **options):
    theirs, ours = getattr(nn, name)(*sizes, **options), getattr(rnnc.nn, name)(*sizes, **options)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.fixture
def ran(monkeypatch):
    """How often torch's own forward ran."""
    calls = []
    run = own.run_torch
    monkeypatch.setattr(own, "run_torch", lambda *args: calls.append(1) or run(*args))
    return calls


def refused(module, *call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - torch's own, of any class
        module(*call)
    return type(caught.value), str(caught.value)


@EACH
def test_what_torch_refuses(name):
    ours, theirs = pair(name, 4, 5, 2)
    x, state = torch.randn(3, 2, 4), torch.zeros(2, 2, 5)
    ours(x), ours(x)  # a known call changes nothing
    two = (lambda s: (s, s)) if name == "LSTM" else (lambda s: s)
    calls = [
        (torch.randn(3, 2, 5),),
        (x.double(),),
        (torch.randn(4),),
        (torch.randn(1, 3, 2, 4),),
        (torch.randn(0, 2, 4),),
        (x.long(),),
        ("x",),
        (x, two(torch.zeros(2, 3, 5))),
        (x, two(torch.zeros(1, 2, 5))),
        (x, two(torch.zeros(2, 5))),
        (x, two(state.double())),
        (x[:, 0], two(state)),
        (x.to("meta"),),
    ]
    if name == "LSTM":
        calls += [(x, state), (x, ()), (x, (state,)), (x, (state, torch.zeros(2, 2, 6)))]
        calls.append((x, torch.stack((state, state))))
    for call in calls:
        assert refused(ours, *call) == refused(theirs, *call)


def test_an_empty_batch_as_torch(ran):
    ours, theirs = pair("GRU", 4, 5)
    x = torch.randn(3, 0, 4)
    torch.testing.assert_close(ours(x), theirs(x))
    assert ran


def test_a_projection(ran, torch_twins):
    ours, theirs = pair("LSTM", 4, 6, 2, proj_size=3, dtype=torch.float64)
    x = torch.randn(5, 2, 4, dtype=torch.float64)
    torch_twins.assert_same(ours, theirs, x)
    hx = torch.randn(2, 2, 3, dtype=torch.float64), torch.randn(2, 2, 6, dtype=torch.float64)
    torch_twins.assert_same(ours, theirs, x, hx)
    assert len(ran) == 2


def check_same(ours, theirs, x):
    """Check that both give the same bits, or the same error."""
    try:
        wanted = theirs(x)
    except RuntimeError as error:  # oneDNN has no LSTM of bfloat16 for every processor
        with pytest.raises(RuntimeError, match=re.escape(str(error)[:60])):
            ours(x)
    else:
        torch.testing.assert_close(ours(x), wanted, rtol=0, atol=0)


def test_half_precision_and_autocast(ran):
    dtype = torch.bfloat16
    ours, theirs = pair("LSTM", 4, 5)
    x = torch.randn(6, 2, 4)
    with torch.autocast("cpu", dtype):
        check_same(ours, theirs, x)
    check_same(ours.to(dtype), theirs.to(dtype), x.to(dtype))
    assert len(ran) == 2


def test_no_memory(ran):
    ours, theirs = pair("GRU", 4, 5, device="cpu")
    x = torch.randn(6, 2, 4, device="meta")
    assert ours.to("meta")(x)[0].shape == theirs.to("meta")(x)[0].shape
    assert ran


@EACH
@pytest.mark.parametrize("steps", [1, 5])
def test_second_derivatives(name, steps):
    ours, theirs = pair(name, 3, 4, 2, bidirectional=steps > 1, dtype=torch.float64)
    x = torch.randn(steps, 2, 3, dtype=torch.float64)
    found = []
    for module in (ours, theirs):
        own = x.clone().requires_grad_()
        weights = list(module.parameters())
        for _ in range(3):
            results = module(own)
            loss = results[0].square().sum() + sum(r.sum() for r in results[1])
            first = torch.autograd.grad(loss, [own, *weights], create_graph=True)
            second = torch.autograd.grad(sum(d.square().sum() for d in first), [own, *weights])
        found.append([*first, *second])
    for got, wanted in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-10)


def test_second_derivatives_keep_the_dropped_features():
    ours = rnnc.nn.LSTM(3, 4, 3, dropout=0.5, dtype=torch.float64)
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    loss = ours(x)[0].square().sum()
    plain = torch.autograd.grad(loss, x, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, x, create_graph=True), plain)


def test_transforms_of_torch(ran):
    ours, theirs = pair("GRU", 3, 4, dtype=torch.float64)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    named = {name: p.detach() for name, p in theirs.named_parameters()}

    def loss(module):
        return lambda weights: torch.func.functional_call(module, weights, (x,))[0].sum()

    got, wanted = (torch.func.grad(loss(module))(named) for module in (ours, theirs))
    torch.testing.assert_close(got, wanted)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangents = [forward_ad.unpack_dual(m(dual)[0]).tangent for m in (ours, theirs)]
    torch.testing.assert_close(*tangents)
    assert len(ran) == 2
    torch.testing.assert_close(ours(x), theirs(x))
    assert len(ran) == 2


def test_batches_of_gradients():
    ours, theirs = pair("LSTM", 3, 4, 2, dtype=torch.float64)
    packed = nn.utils.rnn.pack_sequence([torch.randn(n, 3, dtype=torch.float64) for n in (3, 1)])

    def of_packed(module):
        return lambda data: module(packed._replace(data=data))[0].data.sum(0)

    for steps in (1, 5):
        x = torch.randn(steps, 2, 3, dtype=torch.float64)
        found = [
            torch.autograd.functional.jacobian(lambda v, m=m: m(v)[0].sum(0), x, vectorize=True)
            for m in (ours, theirs)
        ]
        torch.testing.assert_close(*found)
    found = [
        torch.autograd.functional.jacobian(of_packed(m), packed.data, vectorize=True)
        for m in (ours, theirs)
    ]
    torch.testing.assert_close(*found)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_in_a_script_and_in_a_trace():
    class Wrapped(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            y, h = self.inner(x)
            return y + h

    ours, theirs = (Wrapped(module) for module in pair("GRU", 4, 5, 1))
    x = torch.randn(3, 2, 4)
    for other in (torch.jit.script(ours), torch.jit.trace(ours, (x,))):
        torch.testing.assert_close(other(x), theirs(x))
        longer = torch.randn(7, 2, 4)
        torch.testing.assert_close(other(longer), theirs(longer))


def test_without_a_compiler(ran, monkeypatch):
    def find_compiler(*_):
        raise NoCompilerError("C++ compiler", "no `c++` on the PATH", "one", "install one")

    monkeypatch.setattr(CpuTarget, "find_compiler", find_compiler)
    warn_once.cache_clear()
    ours, theirs = pair("LSTM", 4, 5)
    x = torch.randn(3, 2, 4)
    with pytest.warns(RuntimeWarning, match="torch's own forward, since there is no compiler"):
        torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)
    assert ran
    warn_once.cache_clear()
    assert rnnc.convert(theirs).left[""].startswith("no kernels for cpu")


class Marked(torch.Tensor):
    """A subclass that says nothing of its own about operators."""


def test_a_subclass_of_tensor(ran):
    ours, theirs = pair("GRU", 4, 5)
    x = torch.randn(3, 2, 4).as_subclass(Marked)
    torch.testing.assert_close(ours(x), theirs(x))
    assert isinstance(ours(x)[0], Marked)


class _Model(nn.Module):
    """A module over time and a cell, with states."""

    def __init__(self, room, plain):
        super().__init__()
        self.rnn, self.cell = room.LSTM(3, 4, 2), room.GRUCell(4, 4)
        if plain:
            rnnc.convert(self, isinstance=False, force=True)

    def forward(self, x, h, c):
        y, (h, _) = self.rnn(x, (h, c))
        return self.cell(y[-1], h[0]) + self.cell(y[0])


@pytest.mark.parametrize("plain", [False, True])
def test_a_call_is_one_node_of_a_graph_of_fx(plain):
    torch.manual_seed(0)
    theirs, ours = _Model(nn, False), _Model(rnnc.nn, plain)
    ours.load_state_dict(theirs.state_dict())
    inputs = torch.randn(5, 2, 3), torch.randn(2, 2, 4), torch.randn(2, 2, 4)
    graph = torch.fx.symbolic_trace(ours)
    assert graph.code == torch.fx.symbolic_trace(theirs).code
    torch.testing.assert_close(graph(*inputs), theirs(*inputs))
