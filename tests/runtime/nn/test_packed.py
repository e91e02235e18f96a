"""Packed sequences in `rnnc.nn`, by kernels, against torch's modules."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.nn import packed
from torch import nn
from torch.nn.utils.rnn import pack_sequence

NAMES = ["LSTM", "GRU", "RNN"]
EACH = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def _by_kernels(monkeypatch):
    """Torch's own forward must not run."""

    def refuse(*_):
        raise AssertionError("torch's own forward ran")

    monkeypatch.setattr(packed, "run_torch", refuse)


def pair(name, *sizes, **options):
    theirs, ours = getattr(nn, name)(*sizes, **options), getattr(rnnc.nn, name)(*sizes, **options)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def rows_of(*lengths, features=4):
    return [torch.randn(n, features, dtype=torch.float64) for n in lengths]


def states_of(name, *shape):
    first, second = torch.randn(2, *shape, dtype=torch.float64)
    return (first, second) if name == "LSTM" else first


@EACH
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True), (3, False)])
def test_results_and_gradients(name, layers, both, torch_twins):
    ours, theirs = pair(
        name, 4, 5, layers, bidirectional=both, bias=layers < 3, dtype=torch.float64
    )
    hx = states_of(name, layers * (1 + both), 4, 5)
    for lengths in ((2, 5, 1, 5), (3, 3, 3, 3), (1, 1, 1, 1)):
        given = pack_sequence(rows_of(*lengths), enforce_sorted=False)
        torch_twins.assert_same(ours, theirs, given)
        torch_twins.assert_same(ours, theirs, given, hx)
        y, wanted = ours(given, hx)[0], theirs(given, hx)[0]
        assert torch.equal(y.unsorted_indices, wanted.unsorted_indices)
        assert torch.equal(y.batch_sizes, wanted.batch_sizes)
    in_order = pack_sequence(rows_of(6, 6, 2, 1))
    torch_twins.assert_same(ours, theirs, in_order, hx)
    with torch.no_grad():
        torch.testing.assert_close(ours(in_order, hx)[0].data, theirs(in_order, hx)[0].data)


def test_a_frozen_module_and_a_frozen_input():
    ours, theirs = pair("LSTM", 4, 5, 2, dtype=torch.float64)
    given, found = pack_sequence(rows_of(5, 3)), []
    for module in (ours, theirs):
        module.requires_grad_(False)
        module.weight_hh_l1.requires_grad_()
        module(given)[0].data.square().sum().backward()
        found.append(module.weight_hh_l1.grad)
    torch.testing.assert_close(*found)


@EACH
def test_second_derivatives(name):
    ours, theirs = pair(name, 3, 4, 2, bidirectional=True, dtype=torch.float64)
    given, found = pack_sequence(rows_of(4, 2, 1, features=3)), []
    for module in (ours, theirs):
        data = given.data.clone().requires_grad_()
        inputs = [data, *module.parameters()]
        loss = module(given._replace(data=data))[0].data.square().sum()
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        second = torch.autograd.grad(sum(d.square().sum() for d in first), inputs)
        found.append([*first, *second])
    for got, wanted in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-10)


def test_a_graph_that_is_kept():
    ours, _ = pair("GRU", 4, 5, dtype=torch.float64)
    data = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    given = pack_sequence(rows_of(5, 4))._replace(data=data)
    loss = ours(given)[0].data.square().sum()
    first = torch.autograd.grad(loss, data, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, data), first, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, data)


def test_weights_that_changed_before_the_backward():
    ours, _ = pair("GRU", 4, 5, dtype=torch.float64)
    loss = ours(pack_sequence(rows_of(5, 4)))[0].data.sum()
    with torch.no_grad():
        ours.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_dropout_is_the_same_in_the_backward():
    ours, _ = pair("LSTM", 4, 5, 3, dropout=0.5, dtype=torch.float64)
    data = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    given = pack_sequence(rows_of(5, 4))._replace(data=data)
    assert not torch.equal(ours(given)[0].data, ours(given)[0].data)
    loss = ours(given)[0].data.square().sum()
    plain = torch.autograd.grad(loss, data, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, data, create_graph=True), plain)
    ours.eval()
    torch.testing.assert_close(ours(given)[0].data, ours(given)[0].data)


def test_what_torch_refuses_or_takes_unchecked(monkeypatch):
    monkeypatch.undo()
    ours, theirs = pair("LSTM", 4, 5, dtype=torch.float64)
    given = pack_sequence(rows_of(3, 2))
    zeros = torch.zeros(1, 2, 5, dtype=torch.float64)
    calls = [
        (given._replace(data=given.data.float()), None),
        (pack_sequence(rows_of(3, 2, features=3)), None),
        (given, (zeros, zeros[:, :1])),
    ]
    for call in calls:
        found = []
        for module in (ours, theirs):
            try:
                found.append(module(*call)[0].data)
            except (RuntimeError, ValueError) as error:
                found.append((type(error), str(error)))
        assert type(found[0]) is type(found[1])
        if isinstance(found[0], torch.Tensor):
            torch.testing.assert_close(*found)
        else:
            assert found[0] == found[1]


@pytest.mark.parametrize("given", [False, True], ids=("zeros", "states"))
@pytest.mark.parametrize("lengths", [(3, 5, 2), (4, 4, 4)], ids=str)
def test_a_call_that_comes_again_is_not_checked_again(lengths, given, monkeypatch):
    ours, theirs = pair("LSTM", 4, 5, dtype=torch.float64)
    checked, fits = [], type(ours)._fits
    monkeypatch.setattr(type(ours), "_fits", lambda *a: checked.append(a) or fits(*a))
    for number in range(5):
        rows = pack_sequence(rows_of(*lengths), enforce_sorted=False)
        hx = states_of("LSTM", 1, 3, 5) if given else None
        (y, last), (wanted, wanted_last) = ours(rows, hx), theirs(rows, hx)
        for got, want in zip((y.data, *last), (wanted.data, *wanted_last), strict=True):
            torch.testing.assert_close(got, want)
        # States are checked before they are sorted.
        assert len(checked) == (number + 1 if given else min(number + 1, 2))


def test_batch_sizes_that_are_not_in_order():
    """No kernel reads rows by them: torch says what it thinks of each."""
    rows = pack_sequence(rows_of(3, 2))
    assert packed._places(rows.batch_sizes, 5).tolist() == [0, 2, 4, 5, 3, 2]
    for sizes in ([1, 2, 2], [2, 2, 2], [2, 2, 1, 0], [], [5, 1, -1]):
        assert packed._places(torch.tensor(sizes, dtype=torch.int64), 5) is None
    assert packed._places(rows.batch_sizes.int(), 5) is None
