"""Products of a module's input with its weights on a GPU, of few rows and of many."""

from __future__ import annotations

import pytest
import torch
from rnnc.runtime.cuda.products import inputs
from rnnc.runtime.program.multiplier import TORCH

G, N, D, FEATURES = 3, 2, 4, 16
# How weights (G, N, D, features) lie: gate by gate, head by head, as wx has them, and with gaps.
ORDERS = {"gates": (0, 1, 2, 3), "heads": (1, 0, 2, 3), "units": (1, 2, 0, 3)}


@pytest.fixture
def copied(monkeypatch):
    """The sizes of what is put in order."""
    sizes, put = [], inputs.put_in_order

    def noted(tensor):
        if not tensor.is_contiguous():
            sizes.append(tuple(tensor.shape))
        return put(tensor)

    monkeypatch.setattr(inputs, "put_in_order", noted)
    monkeypatch.setattr(inputs, "multiplier", lambda *_: TORCH)
    monkeypatch.setattr(inputs, "_FEW", 4)
    return sizes


def weights(order, heads=N):
    axes = ORDERS.get(order, ORDERS["gates"])
    sizes = G, heads, D, FEATURES
    made = torch.randn([sizes[axis] for axis in axes], dtype=torch.float64)
    found = made.permute([axes.index(axis) for axis in range(4)])
    return found if order in ORDERS else torch.cat((found, found), 3)[..., :FEATURES]


@pytest.mark.parametrize("heads", [1, N])
@pytest.mark.parametrize("steps", [1, 2, 3, 64])
@pytest.mark.parametrize("order", [*ORDERS, "gaps"])
def test_what_is_smaller_is_put_in_order(order, steps, heads, copied):
    weight, x = weights(order, heads), torch.randn(steps, 2, FEATURES, dtype=torch.float64)
    found = inputs.project_at(x, weight, False)
    torch.testing.assert_close(found, torch.einsum("tbi,gndi->btndg", x, weight))
    assert found.transpose(0, 1).is_contiguous()
    results, own = (2 * steps, heads, D, G), (heads, D, G, FEATURES)
    few = inputs._FEW * 2 * steps <= FEATURES and order != "gaps"
    assert copied == ([] if order == "units" else [results if few else own])
