"""Products of a module's input with its weights on a GPU, of few rows and of many."""

from __future__ import annotations

import pytest
import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.runtime.cuda.driver.device import describe
from rnnc.runtime.cuda.load import compile_unit, unit_of
from rnnc.runtime.cuda.products import inputs
from rnnc.runtime.cuda.products.few_rows import MOST_ROWS
from rnnc.runtime.cuda.products.rearrange import TYPES
from rnnc.runtime.program.lower import lower
from rnnc.runtime.program.multiplier import TORCH

G, N, D, FEATURES = 3, 2, 4, 16
H200 = limits_of("H200")
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


def weights(order, heads=N, dtype=torch.float64):
    axes = ORDERS.get(order, ORDERS["gates"])
    sizes = G, heads, D, FEATURES
    made = torch.randn([sizes[axis] for axis in axes], dtype=torch.float64).to(dtype)
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


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("order", [*ORDERS, "gaps"])
def test_a_call_of_no_step(order):
    x = torch.randn(0, 2, FEATURES, dtype=torch.float64)
    assert inputs.project_at(x, weights(order), False).shape == (2, 0, N, D, G)


def operations(rows, dtype=torch.bfloat16, features=FEATURES, order="gates", tf32=False):
    """What a product of so many rows asks of a GPU that is not there."""
    weight = weights(order, dtype=dtype)[..., :features].to("meta")
    x, device = torch.empty(1, rows, features, dtype=dtype, device="meta"), describe(H200)
    made = lower(
        lambda: [inputs.project_at(x, weight, tf32)], [x, weight], torch.device("cuda", device)
    )
    return [type(op).__name__ for op in made[0].ops if type(op).__name__ in ("Launch", "Multiply")]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rows", [1, MOST_ROWS])
def test_few_rows_are_one_launch(rows, order):
    assert operations(rows, order=order) == ["Launch"]
    assert operations(rows, torch.float32, order=order, tf32=True) == ["Launch"]


@pytest.mark.parametrize(
    "other",
    [
        {"rows": MOST_ROWS + 1},
        {"dtype": torch.float32},
        {"dtype": torch.float64},
        {"features": 12},  # lines of weights begin at multiples of 8 bytes
    ],
    ids=str,
)
def test_the_library_multiplies_other_rows(other):
    assert "Multiply" in operations(**{"rows": 1} | other)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if dtype != torch.float64], ids=str)
def test_the_kernel_compiles_without_spills(dtype, arch, compiler):
    (report,) = compile_unit(unit_of("few_rows", TYPES[dtype]), arch).reports.values()
    assert (report.spills, report.stack) == (0, 0)
    assert report.registers <= 128  # two blocks per multiprocessor
