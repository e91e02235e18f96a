"""What a forward on a GPU saves of a cell whose step has stages."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.call.facts import facts_of
from rnnc.runtime.cuda import kernels
from rnnc.runtime.cuda.saved import saved_parts, saved_shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("sizes", [(3, 5, 1, 7), (0, 2, 1, 4), (2, 1, 3, 8)])
@pytest.mark.parametrize("name", ["lstm", "gru", "norm_lstm", "deep"])
def test_values_and_numbers_share_a_tensor(name, sizes, dtype, staged_cells):
    cell = rnnc.cells.lstm if name == "lstm" else staged_cells.TWINS[name][0]
    facts = facts_of(cell)
    saved = torch.zeros(saved_shape(facts, sizes), dtype=dtype)
    assert saved.shape[:3] == sizes[:3]
    values, numbers = saved_parts(facts, saved, sizes[-1])
    assert values.shape == (*sizes, len(facts.saved))
    assert values.is_contiguous()
    assert values.data_ptr() == saved.data_ptr()
    if not facts.statistics:
        assert values is saved
        assert numbers is None
        return
    assert numbers is not None
    size = max(dtype.itemsize, 4)
    assert numbers.nbytes >= size * facts.statistics * sizes[0] * sizes[1] * sizes[2]
    if saved.numel():
        assert (numbers.data_ptr() - saved.data_ptr()) % size == 0
        assert numbers.data_ptr() >= values.data_ptr() + values.nbytes


@pytest.fixture
def in_place(monkeypatch):
    """Whether the gradients of each backward that ran took the memory of what was saved."""
    noted = []

    class Backward(kernels.Backward):
        def finish(self, sums):
            noted.append(self.d_wx.data_ptr() == self._read.values.data_ptr())
            return super().finish(sums)

    monkeypatch.setattr(kernels, "Backward", Backward)
    return noted


def backwards(name, variant, inputs_for):
    """The gradients of a call whose graph is retained once, and then not."""
    cell = rnnc.cells.get(name)
    given = inputs_for(cell, 3, 5, 1, 24, torch.float32)
    options = {"backend": "simulated", "variant": variant, "precision": "ieee"}
    tensors = given.wx, given.R, given.b, given.states
    over_time, last = rnnc.scan(cell, *tensors, params=given.params, **options)
    loss = sum(value.square().sum() for value in (*over_time, *last))
    leaves = [*given.named().values()]
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    return zip(first, torch.autograd.grad(loss, leaves), strict=True)


@pytest.mark.parametrize(
    ("name", "possible"),
    [("joint_norm_lstm", True), ("lstm", True), ("deep_transition_rnn", False)],
)
def test_gradients_take_the_memory_of_what_nobody_reads(
    name, possible, in_place, emulated_blocks, inputs_for, poisoned
):
    """Sums over time read what a called gate multiplied."""
    for one, other in backwards(name, "block", inputs_for):
        assert torch.equal(one, other)
    assert in_place == [False, possible]


def test_gradients_have_memory_of_their_own_where_later_stages_read(
    in_place, emulated_alternating, inputs_for, poisoned
):
    for one, other in backwards("joint_norm_lstm", "alternating", inputs_for):
        assert torch.equal(one, other)
    assert in_place == [False, False]
