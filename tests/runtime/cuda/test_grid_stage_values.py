"""Values and gradients of cells with stages, whose grid kernels run as C++ on the CPU."""

from __future__ import annotations

import pytest

from .test_stage_values import CALLS, compare

# Rows of R that end within a k-tile; deep has too many values for that in float32.
DIMS = {"gru": 72, "norm_lstm": 72, "deep": 80}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", DIMS)
def test_modules(name, call, emulated_blocks, staged_cells, poisoned):
    compare(staged_cells.TWINS[name][0], CALLS[call], DIMS[name], variant="grid")
    assert {plan.kind for plan in emulated_blocks} == {"grid"}
