"""The library's cells whose recurrence a scan can compute, against loops of plain torch."""

from __future__ import annotations

import pytest
import rnnc
import torch

NAMES = [
    *("damped_ema", "ema", "gilr", "lru", "mingru_highway", "rg_lru", "s5", "slstm_without_r"),
]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_cell_equals_a_loop_of_torch(name, backend, scan_steps, torch_loops):
    cell = rnnc.cells.get(name)
    tensors = torch_loops.calls(cell, 0.1, 1.5)
    torch_loops.check_against_loop(cell, tensors, scan_steps.STEPS[name], backend, 1e-10)


def test_every_cell_has_a_loop(scan_steps):
    assert sorted(scan_steps.STEPS) == NAMES


def without_r(guarded: rnnc.Cell) -> rnnc.Cell:
    """The library's sLSTM, with the condition that guards its first step, but for its matrices."""
    gates = [gate.model_copy(update={"recurrent": False}) for gate in guarded.gates]
    return guarded.model_copy(update={"gates": tuple(gates)})


def test_slstm_without_r_is_slstm_with_a_matrix_of_zeros():
    wx = 3 * torch.randn(2, 20, 1, 5, 4, dtype=torch.float64)
    b = torch.randn(4, 1, 5, dtype=torch.float64)
    with_r, _ = rnnc.scan(rnnc.cells.slstm, wx, wx.new_zeros(4, 1, 5, 5), b, backend="reference")
    without, _ = rnnc.scan(rnnc.cells.slstm_without_r, wx, None, b, backend="reference")
    torch.testing.assert_close(without[0], with_r[0], rtol=1e-12, atol=1e-12)
    first = torch.sigmoid(wx[:, 0, ..., 3] + b[3]) * torch.tanh(wx[:, 0, ..., 2] + b[2])
    torch.testing.assert_close(without[0][:, 0], first, rtol=1e-12, atol=1e-12)


def test_the_guard_of_slstm_keeps_it_from_a_scan():
    assert rnnc.cells.slstm.recurrence.kind == "dense"
    guarded = without_r(rnnc.cells.slstm).recurrence
    assert guarded.kind == "diagonal"
    assert guarded.reason.startswith("the condition `(n == 0)` reads n")
    parts = {part.states: part.kind for part in rnnc.cells.slstm_without_r.recurrence.parts}
    assert parts == {("m",): "affine", ("c",): "affine", ("n",): "affine", ("h",): "output"}
    assert rnnc.cells.slstm_without_r.recurrence.parts[0].maximum is not None


@pytest.mark.parametrize("name", ["lru", "s5"])
def test_a_complex_state_is_a_matrix_of_two(name):
    (part,) = rnnc.cells.get(name).recurrence.parts
    (a, b), (c, d) = part.matrix
    assert part.states == ("re", "im")
    assert str(a) == str(d)
    assert str(b) == f"-{c}"


def test_s5_keeps_its_digits_in_short_steps():
    """exp(lambda dt) - 1 with dt of a millionth, against float64."""
    found = []
    for dtype in (torch.float32, torch.float64):
        params = {"alpha": -0.5, "omega": 3.0, "step": -13.8}
        own = {name: torch.full((1, 4), value, dtype=dtype) for name, value in params.items()}
        wx = torch.ones(1, 1, 1, 4, 2, dtype=dtype)
        (re, im), _ = rnnc.scan(rnnc.cells.s5, wx, params=own, backend="reference")
        found.append(torch.stack([re, im]).double())
    torch.testing.assert_close(*found, rtol=1e-5, atol=0)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("option", "wanted"),
    [("variant", "auto, block, cluster, grid, walk, scan, alternating"), ("save", "gates, states")],
)
def test_an_unknown_word_is_refused_on_every_device(option, wanted, device):
    """Where no plan is chosen, too."""
    wx, words = torch.ones(1, 3, 1, 4, 2, device=device), {option: "wlak"}
    starts = torch.tensor([0, 3], dtype=torch.int32)

    def module():
        return rnnc.RNN(rnnc.cells.mingru, 3, 4, device=device, **words)(wx[:, :, 0, :3, 0])

    for call in (
        lambda: rnnc.scan(rnnc.cells.mingru, wx, **words),
        lambda: rnnc.scan(rnnc.cells.mingru, wx, backend="reference", **words),
        lambda: rnnc.scan_packed(rnnc.cells.mingru, wx[0], cu_seqlens=starts, **words),
        module,
    ):
        with pytest.raises(rnnc.TensorError, match=f"wanted: one of {wanted}\n"):
            call()
