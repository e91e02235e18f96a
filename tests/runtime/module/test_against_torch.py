"""LSTM, GRU and Elman with the same weights against torch.nn."""

from __future__ import annotations

import pytest
import rnnc
import torch

PAIRS = {"elman": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def copy_weights(name: str, ours: rnnc.RNN, theirs: torch.nn.RNNBase) -> dict[str, torch.Tensor]:
    """Torch's weights into ours; where our parameters' gradients must equal theirs, by name."""
    H = theirs.hidden_size
    expected = {}
    suffixes = ("", "_reverse") if theirs.bidirectional else ("",)
    for layer in [f"{n}{suffix}" for n in range(theirs.num_layers) for suffix in suffixes]:
        W, R, bi, bh = (
            getattr(theirs, f"{kind}_l{layer}")
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        # torch adds two biases; a GRU's candidate keeps the recurrent one apart: n, then m.
        bias = (
            torch.cat([(bi + bh)[: 2 * H], bi[2 * H :], bh[2 * H :]]) if name == "gru" else bi + bh
        )
        with torch.no_grad():
            getattr(ours, f"weight_ih_l{layer}").copy_(W)
            getattr(ours, f"weight_hh_l{layer}").copy_(R)
            getattr(ours, f"bias_l{layer}").copy_(bias)
        expected[f"weight_ih_l{layer}"] = W
        expected[f"weight_hh_l{layer}"] = R
        expected[f"bias_l{layer}"] = bh if name == "gru" else bi
    return expected


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_same_weights_same_outputs_and_gradients(name, batch_first, bidirectional, backend):
    I, H, L, B, T = 7, 12, 2, 3, 11  # noqa: E741
    options = {"batch_first": batch_first, "bidirectional": bidirectional, "dtype": torch.float64}
    theirs = PAIRS[name](I, H, L, **options)
    ours = rnnc.RNN(rnnc.cells.get(name), I, H, num_layers=L, backend=backend, **options)
    expected = copy_weights(name, ours, theirs)
    x = torch.randn((B, T, I) if batch_first else (T, B, I), dtype=torch.float64)
    x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
    count = L * (1 + bidirectional)
    states = [torch.randn(count, B, H, dtype=torch.float64) for _ in ours.cell.states]
    y1, last1 = theirs(x1, tuple(states) if name == "lstm" else states[0])
    y2, last2 = ours(x2, states)
    last1 = last1 if isinstance(last1, tuple) else (last1,)
    close = {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(y2, y1, **close)
    for got, wanted in zip(last2, last1, strict=True):
        torch.testing.assert_close(got, wanted, **close)
    seed = torch.randn_like(y1)
    for y, last in ((y1, last1), (y2, last2)):
        ((y * seed).sum() + sum(s.square().sum() for s in last)).backward()
    torch.testing.assert_close(x2.grad, x1.grad, **close)
    for key, weight in expected.items():
        got, wanted = getattr(ours, key).grad, weight.grad
        if key.startswith("bias") and name == "gru":
            # The candidate's input bias is torch's bias_ih, the recurrent one its bias_hh.
            bi = getattr(theirs, key.replace("bias", "bias_ih")).grad
            wanted = torch.cat([bi, wanted[2 * H :]])
        torch.testing.assert_close(got.flatten(), wanted.flatten(), **close, msg=key)


def test_unbatched_input_as_in_torch():
    theirs = torch.nn.GRU(4, 6, dtype=torch.float64)
    ours = rnnc.RNN(rnnc.cells.gru, 4, 6, dtype=torch.float64)
    copy_weights("gru", ours, theirs)
    x, h = torch.randn(9, 4, dtype=torch.float64), torch.randn(1, 6, dtype=torch.float64)
    y1, last1 = theirs(x, h)
    y2, (last2,) = ours(x, (h,))
    torch.testing.assert_close(y2, y1)
    torch.testing.assert_close(last2, last1)


def test_an_empty_batch_as_in_torch():
    theirs, ours = torch.nn.LSTM(5, 6, 2), rnnc.RNN(rnnc.cells.lstm, 5, 6, num_layers=2)
    x = torch.randn(4, 0, 5, requires_grad=True)
    wanted, wanted_last = theirs(x)
    y, last = ours(x)
    assert y.shape == wanted.shape
    assert [s.shape for s in last] == [s.shape for s in wanted_last]
    (y.sum() + last[0].sum()).backward()
    assert torch.equal(ours.weight_hh_l0.grad, torch.zeros_like(ours.weight_hh_l0))


def test_no_steps_leave_the_states_where_torch_refuses():
    """A loop that may see an empty chunk need not special-case it."""
    theirs, ours = torch.nn.LSTM(5, 6, 2), rnnc.RNN(rnnc.cells.lstm, 5, 6, num_layers=2)
    x, states = torch.randn(0, 3, 5), tuple(torch.randn(2, 3, 6) for _ in range(2))
    with pytest.raises(RuntimeError, match="sequence length"):
        theirs(x, states)
    y, last = ours(x, states)
    assert y.shape == (0, 3, 6)
    assert all(map(torch.equal, last, states))
