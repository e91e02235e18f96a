"""The advice in the errors of wrong calls works when it is followed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, param, tanh
from torch.nn.utils import rnn as packing


@rnnc.cell
def odd(
    h: State,
    c: State,
    *,
    a: Gate = gate(source="c"),
    b: Gate = gate(recurrent="diagonal"),
    w: Param = param(0.5),
):
    """Has a tensor of every kind."""
    return tanh(a + w * b) + 0.1 * c, h * w + a


def message(call) -> dict[str, str]:
    """The parts of the error that a call raises."""
    with pytest.raises(rnnc.TensorError) as caught:
        call()
    lines = str(caught.value).split("\n")
    parts = {"argument": lines[0]}
    return parts | {k.strip(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}


def advice(call) -> str:
    return message(call)["write"]


@pytest.mark.parametrize("missing", ["R", "R_diag", "params"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_that_are_missing(missing, dtype):
    wx = torch.randn(2, 5, 2, 16, 2, dtype=dtype)
    given = {
        "R": torch.randn(1, 2, 16, 16, dtype=dtype),
        "R_diag": torch.randn(1, 2, 16, dtype=dtype),
        "params": {"w": torch.randn(2, 16, dtype=dtype)},
    }
    del given[missing]
    scope = {"torch": torch, "wx": wx}
    exec(advice(lambda: rnnc.scan(odd, wx, **given)), scope)
    (h, _), _ = rnnc.scan(odd, wx, **given, **{missing: scope[missing]})
    assert h.isfinite().all()
    if missing == "R":
        for matrix in scope["R"].flatten(0, 1):
            eye = torch.eye(16, dtype=dtype)
            torch.testing.assert_close(matrix @ matrix.T, eye, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences(batch_first):
    rnn = rnnc.RNN(odd, 3, 8, batch_first=batch_first)
    sequences = [torch.randn(length, 3) for length in (5, 3, 2)]
    x = packing.pack_sequence(sequences)
    found = message(lambda: rnn(x))
    assert "lengths=lengths" in found["wanted"]
    scope = {"torch": torch, "x": x}
    exec(found["write"], scope)
    y, (last, _) = rnn(scope["x"], lengths=scope["lengths"])
    for row, (sequence, length) in enumerate(zip(sequences, scope["lengths"], strict=True)):
        own = y[row, :length] if batch_first else y[:length, row]
        wanted, (own_last, _) = rnn(sequence)
        torch.testing.assert_close(own, wanted)
        torch.testing.assert_close(last[:, row], own_last)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_mkldnn"])
def test_layouts_without_strides(layout):
    rnn = rnnc.RNN(odd, 3, 8)
    dense = torch.randn(5, 3)
    x = getattr(dense, layout)()
    write = advice(lambda: rnn(x))
    assert write == "x.to_dense()"
    torch.testing.assert_close(rnn(eval(write))[0], rnn(dense)[0])
    wx, R = torch.randn(2, 3, 1, 4, 1), torch.randn(1, 1, 4, 4)
    for place in ("wx", "R"):
        given = {"wx": wx, "R": R}
        given[place] = given[place].to_sparse()
        write = advice(lambda given=given: rnnc.scan(rnnc.cells.elman, **given))
        assert write == f"{place}.to_dense()"


@pytest.mark.filterwarnings("ignore")
def test_nested_tensors():
    rnn = rnnc.RNN(odd, 3, 8, batch_first=True)
    x = torch.nested.nested_tensor([torch.randn(5, 3), torch.randn(2, 3)])
    write = advice(lambda: rnn(x))
    assert rnn(eval(write))[0].shape == (2, 5, 8)


def test_what_is_no_tensor():
    rnn = rnnc.RNN(odd, 3, 8)
    found = message(lambda: rnn(np.zeros((5, 2, 3), np.float32)))
    assert found["found"] == "an ndarray"
    x = np.ones((5, 2, 3), np.float32)
    assert rnn(eval(found["write"]))[0].shape == (5, 2, 8)
    assert message(lambda: rnn(3))["found"] == "an int"
    found = message(lambda: rnn(None))
    assert found["found"] == "None"
    assert "as_tensor" not in found["write"]
    assert message(lambda: rnn(x))["argument"] == "x"


@pytest.mark.parametrize(("hidden", "heads"), [(8, 3), (48, 5), (7, 2), (12, 13), (100, 99)])
def test_heads_that_do_not_divide(hidden, heads):
    write = advice(lambda: rnnc.RNN(odd, 3, hidden, heads=heads))
    first, second = write.split(", or ")
    nearest = eval(f"dict({first})")["heads"]
    others = [n for n in range(1, hidden + 1) if hidden % n == 0]
    assert abs(nearest - heads) == min(abs(n - heads) for n in others)
    rnnc.RNN(odd, 3, hidden, heads=nearest)
    rnnc.RNN(odd, 3, eval(f"dict({second})")["hidden_size"], heads=heads)


@pytest.mark.parametrize("bad", [math.nan, 2.5, "4", 0, -1, None, True, [3]])
@pytest.mark.parametrize("name", ["input_size", "hidden_size", "heads", "num_layers"])
def test_sizes(name, bad):
    sizes = {"input_size": 3, "hidden_size": 8, "heads": 1, "num_layers": 1}
    write = advice(lambda: rnnc.RNN(odd, **(sizes | {name: bad})))
    rnnc.RNN(odd, **(sizes | eval(f"dict({write})")))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, "float32"])
def test_dtypes_of_a_module(dtype):
    write = advice(lambda: rnnc.RNN(odd, 3, 8, dtype=dtype))
    rnnc.RNN(odd, 3, 8, **eval(f"dict({write})"))


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.float64])
def test_dtypes_of_an_input(dtype):
    rnn = rnnc.RNN(odd, 3, 8)
    x = torch.ones(5, 2, 3).to(dtype)
    write = advice(lambda: rnn(x))
    assert rnn(eval(write.split(", or ")[0]))[0].shape == (5, 2, 8)


def test_what_is_no_cell():
    assert "lstm" in advice(lambda: rnnc.RNN("lstn", 3, 8))
    found = message(lambda: rnnc.RNN([odd, odd], 3, 8))
    assert found["found"] == "a list"
    assert "nn.ModuleList" in found["write"]
    for bad in ("lstn", None, torch.nn.LSTM, lambda g, h: h):
        assert message(lambda bad=bad: rnnc.scan(bad, torch.zeros(1)))["argument"] == "cell"
        assert message(lambda bad=bad: rnnc.RNN(bad, 3, 8))["argument"] == "cell"
