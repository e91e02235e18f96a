"""What a forward on a GPU saves of a cell whose step has stages."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.call.facts import facts_of
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
