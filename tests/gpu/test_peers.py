"""`rnnc bench --peers` on a GPU: who computes the same function is close to float64."""

from __future__ import annotations

import pytest
from rnnc.bench.suites.checks import check_all

# The last digits of a dtype and of TF32, over 200 steps.
BOUNDS = {"float32 (ieee)": 1e-5, "float32 (tf32)": 5e-3, "bfloat16": 3e-2, "float16": 5e-3}
# Measured on an H200: gradients of biases in float16 0.007, where torch and rnnc have 0.0005, and
# the GRU in float32 0.0004, since cuBLAS rounds its products to TF32.
HASTE = {"float16": 1e-2, "float32 (ieee)": 1e-3}


@pytest.fixture(scope="module")
def checks():
    kinds = ["auto", "nn", "haste", "accelerated-scan"]
    return list(check_all("cuda", (64, 16, 200), kinds))


def test_results_and_gradients_are_close_to_float64(checks):
    ran = [check for check in checks if not check.failure]
    assert {check.name for check in ran} >= {"rnnc", "nn.LSTM", "nn.GRU", "rnnc hgrn"}
    for check in ran:
        bounds = BOUNDS | HASTE if check.name == "Haste" else BOUNDS
        bound = bounds.get(check.dtype, 1e-5)
        wrong = {name: error for name, error in check.errors.items() if not error < bound}
        assert not wrong, (check.cell, check.name, check.dtype)


def test_rnnc_is_as_close_as_torch(checks):
    by_name = {(c.cell, c.dtype, c.name): c.errors for c in checks}
    pairs = [key for key in by_name if key[2] == "rnnc"]
    assert len(pairs) == 8
    for cell, dtype, name in pairs:
        theirs = by_name[cell, dtype, f"nn.{cell.upper()}"]
        for tensor, error in by_name[cell, dtype, name].items():
            assert error < 2 * theirs[tensor] + 1e-6, (cell, dtype, tensor)
