"""Results share no memory with later calls: changing them changes no other result."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, param, tanh


@rnnc.cell
def kept(g: Gate, h: State, s: State, p: State, *, w: Param = param(0.5)):
    """Returns a state as it is, and a param."""
    return tanh(g), s, w


@rnnc.cell
def swap(g: Gate, h: State, s: State):
    """Returns the state before as another one."""
    return tanh(g) + s, h


BACKENDS = ["auto", "reference"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("cell", [kept, swap], ids=lambda c: c.name)
def test_results_are_fresh(cell, steps, backend):
    rnn = rnnc.RNN(cell, 3, 4, backend=backend)
    x = torch.randn(steps, 2, 3)
    given = tuple(torch.randn(1, 2, 4) for _ in cell.states)
    copies = [s.clone() for s in given]
    params = {k: v.detach().clone() for k, v in rnn.named_parameters()}
    for states in (None, given):
        with torch.no_grad():
            y, last = rnn(x, states)
            again = [t.clone() for t in (y, *last)]
            for tensor in (y, *last):
                tensor.add_(1)
            for tensor, before in zip((y, *last), again, strict=True):
                assert torch.equal(tensor, before + 1)  # no two share memory
            y, last = rnn(x, states)
        for tensor, before in zip((y, *last), again, strict=True):
            assert torch.equal(tensor, before)
            tensor.requires_grad_()
            assert not any(t.requires_grad for t in rnn(x.detach(), states)[1] if t is tensor)
    for state, before in zip(given, copies, strict=True):
        assert torch.equal(state, before)
    for key, value in rnn.named_parameters():
        assert torch.equal(value, params[key])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 2])
def test_results_of_scan_are_fresh(steps, backend):
    wx, R = torch.randn(2, steps, 1, 4, 1), torch.randn(1, 1, 4, 4)
    states = tuple(torch.randn(2, 1, 4) for _ in kept.states)
    copies = [s.clone() for s in states]
    w = torch.randn(1, 4)
    call = {"states": states, "params": {"w": w}, "backend": backend}
    before = w.clone()
    over_time, last = rnnc.scan(kept, wx, R, **call)
    memory = {t.untyped_storage().data_ptr() for t in (wx, R, w, *states)}
    results = [t for t in (*over_time, *last) if t.numel()]
    own = [t.untyped_storage().data_ptr() for t in results]
    assert not memory & set(own)
    assert len(set(own)) == len(own)
    for tensor in results:
        tensor.mul_(3)
    assert torch.equal(w, before)
    for state, copy in zip(states, copies, strict=True):
        assert torch.equal(state, copy)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
def test_autocast_leaves_float64_alone(autocast, dtype):
    """On the CPU; a GPU's twin of this test is in tests/gpu."""
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, dtype=dtype)
    x = torch.randn(5, 3, 4, dtype=dtype)
    wanted = rnn(x)[0]
    with torch.autocast("cpu", autocast):
        got = rnn(x)[0]
    if dtype == torch.float64:
        assert got.dtype == torch.float64
        assert torch.equal(got, wanted)
    else:
        assert got.dtype == autocast
        torch.testing.assert_close(got.float(), wanted, rtol=0, atol=0.02)


@pytest.mark.parametrize("compiled", [False, True])
def test_mixed_inputs_under_autocast_stay_float64(compiled):
    torch._dynamo.reset()
    wx, R = torch.randn(2, 3, 1, 4, 1).double(), torch.randn(1, 1, 4, 4)

    def run(wx, R):
        return rnnc.scan(rnnc.cells.elman, wx, R)[0][0]

    if compiled:
        run = torch.compile(run, fullgraph=True, backend="aot_eager")
    wanted = rnnc.scan(rnnc.cells.elman, wx, R.double())[0][0]
    for given in ((wx, R), (wx, R.double()), (wx.float().double(), R)):
        with torch.autocast("cpu", torch.bfloat16):
            got = run(*given)
        assert got.dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(run(wx, R.double()), wanted, rtol=0, atol=1e-15)
    with pytest.raises(rnnc.TensorError, match=r"R\n  found:  dtype torch.float32"):
        rnnc.scan(rnnc.cells.elman, wx, R)


def test_float32_input_of_a_float64_module_under_autocast_is_refused():
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(rnnc.TensorError) as caught:
        rnn(torch.randn(5, 3, 4))
    assert "autocast leaves float64 alone" in str(caught.value)
    with torch.autocast("cpu", torch.bfloat16):
        rnn(torch.randn(5, 3, 4).to(torch.float64))


def test_a_weight_of_another_dtype_is_refused():
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6)
    rnn.bias_l0 = torch.nn.Parameter(rnn.bias_l0.detach().double())
    with pytest.raises(rnnc.TensorError, match=r"b\n  found:  dtype torch.float64"):
        rnn(torch.randn(5, 3, 4))


def test_float8_is_refused():
    wx, R = torch.randn(2, 3, 1, 4, 1), torch.randn(1, 1, 4, 4)
    short = torch.float8_e4m3fn
    with pytest.raises(rnnc.TensorError, match=r"dtype torch\.float8_e4m3fn"):
        rnnc.scan(rnnc.cells.elman, wx.to(short), R.to(short))
