"""`rnnc.init`: per head and gate."""

from __future__ import annotations

import pytest
import rnnc
import torch
from torch.nn.utils import parametrize


def blocks(weight, heads, dim):
    """The matrix of each head and gate."""
    return weight.detach().unflatten(0, (heads, -1, dim)).flatten(0, 1)


def test_matrices_are_orthogonal_per_head_and_gate():
    rnn = rnnc.RNN(rnnc.cells.gru, 6, 8, heads=2, num_layers=2, bidirectional=True)
    above = rnn.weight_ih_l1.detach().clone()
    rnnc.init.orthogonal_(rnn, gain=3.0)
    rnnc.init.orthogonal_(rnn, "weight_ih_l0")
    for name in ("l0", "l1", "l0_reverse", "l1_reverse"):
        for matrix in blocks(getattr(rnn, f"weight_hh_{name}"), 2, 4):
            torch.testing.assert_close(matrix @ matrix.T, 9 * torch.eye(4), atol=1e-5, rtol=0)
    for matrix in blocks(rnn.weight_ih_l0, 2, 4):
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(4), atol=1e-5, rtol=0)
    assert torch.equal(rnn.weight_ih_l1, above)
    half = rnnc.RNN(rnnc.cells.gru, 6, 8, dtype=torch.bfloat16)
    rnnc.init.orthogonal_(half)
    matrix = half.weight_hh_l0[:8].float()
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(8), atol=0.02, rtol=0)


@pytest.mark.parametrize("fill", [rnnc.init.xavier_uniform_, rnnc.init.xavier_normal_])
def test_fans_are_those_of_one_gate_and_head(fill):
    rnn = rnnc.RNN(rnnc.cells.lstm, 200, 400, heads=2)
    fill(rnn, gain=2.0, generator=torch.Generator().manual_seed(0))
    found = rnn.weight_ih_l0.detach().clone()
    assert found.std().item() == pytest.approx(2 * (2 / (200 + 200)) ** 0.5, rel=0.01)
    fill(rnn, gain=2.0, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rnn.weight_ih_l0, found)


def test_one_gate_alone():
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 4, heads=2, num_layers=2)
    rnnc.init.constant_(rnn, "bias", 1.0, gate="f")
    wanted = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]).repeat(2)
    assert torch.equal(rnn.bias_l0, wanted)
    assert torch.equal(rnn.bias_l1, wanted)
    before = blocks(rnn.weight_hh_l0, 2, 2).clone()
    rnnc.init.xavier_uniform_(rnn, "weight_hh_l0", gate="z")
    changed = (blocks(rnn.weight_hh_l0, 2, 2) != before).flatten(1).any(1)
    assert changed.tolist() == [False, False, True, False] * 2


def test_a_parametrized_weight_takes_the_values():
    class Doubled(torch.nn.Module):
        def forward(self, original):
            return 2 * original

        def right_inverse(self, value):
            return value / 2

    rnn = rnnc.RNN(rnnc.cells.gru, 3, 4)
    parametrize.register_parametrization(rnn, "bias_l0", Doubled())
    rnnc.init.constant_(rnn, "bias", 3.0)
    assert torch.equal(rnn.bias_l0, torch.full((16,), 3.0))
    assert torch.equal(rnn.parametrizations.bias_l0.original, torch.full((16,), 1.5))


def test_unknown_names_are_errors():
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 4)
    for call, text in (
        (
            lambda: rnnc.init.orthogonal_(rnn, "bias"),
            "name\n  found:  'bias'\n  wanted: one of wei",
        ),
        (lambda: rnnc.init.constant_(rnn, "weight_hh_l1", 0.0), "found:  'weight_hh_l1'"),
        (lambda: rnnc.init.constant_(rnn, "bias", 0.0, gate="q"), "a gate of bias: i, f, z, o"),
        (lambda: rnnc.init.orthogonal_(5), "rnn\n  found:  an int\n  wanted: an rnnc.RNN"),
        (lambda: rnnc.init.orthogonal_(torch.nn.LSTM(3, 4)), "found:  an LSTM"),
        (lambda: rnnc.init.xavier_normal_(rnnc.nn.LSTM(3, 4)), "found:  an LSTM"),
    ):
        with pytest.raises(rnnc.TensorError) as caught:
            call()
        assert text in str(caught.value)
