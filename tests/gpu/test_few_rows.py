"""The kernel that multiplies few rows with the input weights of a layer, against float64."""

from __future__ import annotations

import pytest
import torch
from rnnc.runtime.cuda.products import inputs
from rnnc.runtime.cuda.products.few_rows import MOST_ROWS, few_rows, takes_few_rows

# How weights (G, N, D, features) lie: gate by gate, head by head, as wx has them.
ORDERS = {"gates": (0, 1, 2, 3), "heads": (1, 0, 2, 3), "units": (1, 2, 0, 3)}
# float32 is rounded to TF32.
BOUND = {torch.float32: 1e-3, torch.bfloat16: 5e-3, torch.float16: 7e-4}


def weights(sizes, dtype, order="gates"):
    axes = ORDERS[order]
    made = torch.randn([sizes[axis] for axis in axes], device="cuda", dtype=torch.float64).to(dtype)
    return made.permute([axes.index(axis) for axis in range(4)])


def error(found, x, weight):
    """Relative to the norm of all that is added: of few results a sum may be near zero."""
    x, weight = x.double(), weight.double()
    wanted, squares = (
        torch.einsum("bi,gndi->bndg", a, b).reshape(found.shape)
        for a, b in ((x, weight), (x.square(), weight.square()))
    )
    return ((found.double() - wanted).norm() / squares.sum().sqrt()).item()


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, MOST_ROWS])
@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((3, 1, 768, 768), "gates"),
        ((3, 2, 5, 40), "gates"),
        ((4, 3, 64, 8), "heads"),
        ((13, 1, 17, 1000), "units"),
        ((1, 1, 1, 2056), "gates"),
    ],
)
def test_values(sizes, order, rows, dtype):
    weight, x = weights(sizes, dtype, order), weights((1, 1, rows, sizes[3]), dtype)[0, 0]
    assert takes_few_rows(x, weight, True)
    found = few_rows(x, weight)
    assert error(found, x, weight) < BOUND[dtype]
    assert torch.equal(found, few_rows(x, weight))


@pytest.mark.parametrize("value", [1e38, float("inf"), float("nan")])
def test_large_values(value):
    weight, x = weights((2, 1, 8, 16), torch.float32), torch.zeros(3, 16, device="cuda")
    x[1, 5] = value
    found = few_rows(x, weight)
    wanted = torch.einsum("bi,gndi->bndg", x, weight).reshape(3, 16)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-3, atol=0, equal_nan=True)
    assert not found[[0, 2]].any()


@pytest.mark.parametrize(
    ("rows", "features", "dtype"),
    [
        (MOST_ROWS + 1, 16, torch.bfloat16),
        (2, 5, torch.float32),
        (2, 16, torch.float32),
        (2, 20, torch.bfloat16),
        (2, 16, torch.float64),
    ],
)
def test_the_library_takes_the_rest(rows, features, dtype):
    weight, x = weights((3, 1, 8, features), dtype), weights((1, 1, rows, features), dtype)[0, 0]
    assert not takes_few_rows(x, weight, False)
    found = inputs.project_at(x[None], weight, False).reshape(rows, -1)
    assert error(found, x, weight) < (1e-12 if dtype == torch.float64 else BOUND[dtype])
