"""Kernels and reference compute a cell's arithmetic as written: order, grouping, NaN."""

from __future__ import annotations

import re
from functools import cache

import pytest
import rnnc
import torch
from rnnc import (
    Constant,
    Gate,
    State,
    clip_gradient,
    constant,
    gate,
    state,
    stop_gradient,
    tanh,
    where,
)
from rnnc.codegen.derive import derive
from rnnc.codegen.emit_function import emit_function
from torch import Tensor

INPUT = gate(recurrent=False, bias=False)
LOW = torch.finfo(torch.float32).min


@rnnc.cell
def rounded(g: Gate = INPUT, h: State = state()):
    return (g + 12582912.0) - 12582912.0


@rnnc.cell
def kahan(g: Gate = INPUT, h: State = state(), c: State = state()):
    y = g - c
    t = h + y
    return t, (t - h) - y


@rnnc.cell
def guarded(g: Gate = INPUT, h: State = state()):
    return where(g != g, 0, g)


@rnnc.cell
def nothing_times(g: Gate = INPUT, h: State = state()):
    return 0 * g


@rnnc.cell
def difference(g: Gate = INPUT, h: State = state()):
    return g - g


@rnnc.cell
def left_sum(g: Gate = INPUT, k: Gate = INPUT, u: Gate = INPUT, h: State = state()):
    return g + k + u


@rnnc.cell
def right_sum(g: Gate = INPUT, k: Gate = INPUT, u: Gate = INPUT, h: State = state()):
    return g + (k + u)


@rnnc.cell
def quotients(g: Gate = INPUT, k: Gate = INPUT, u: Gate = INPUT, h: State = state()):
    return g / k / u


@rnnc.cell
def inverse(g: Gate = INPUT, h: State = state()):
    return 1 / (1 / g)


@rnnc.cell
def negated_comparison(g: Gate = INPUT, h: State = state()):
    return where(~(g > 0), -1, g)


@rnnc.cell
def powers(g: Gate = INPUT, h: State = state()):
    return g**2 + g**3 * g**5 - (g + 1) ** -3


@rnnc.cell
def literals(g: Gate = INPUT, h: State = state(), huge: Constant = constant(1e39)):
    small = g * 1e-19 * 10**20
    return where(g > 1, small, where(g > 0, g * huge, where(g > -1, g * 1e300, LOW)))


@rnnc.cell
def numbered(g: Gate = INPUT, h: State = state(), s: State = state()):
    return g + s, 1.0


def twins(g: Tensor, k: Tensor, u: Tensor) -> dict[str, Tensor]:
    """One step of each, in plain torch."""
    return {
        "rounded": (g + 12582912.0) - 12582912.0,
        "guarded": torch.where(g != g, 0, g),
        "nothing_times": 0 * g,
        "difference": g - g,
        "left_sum": g + k + u,
        "right_sum": g + (k + u),
        "quotients": g / k / u,
        "inverse": 1 / (1 / g),
        "negated_comparison": torch.where(~(g > 0), -1, g),
        "powers": g**2 + g**3 * g**5 - (g + 1) ** -3.0,
        "literals": torch.where(
            g > 1,
            g * 1e-19 * 1e20,
            torch.where(g > 0, g * 1e39, torch.where(g > -1, g * 1e300, LOW)),
        ),
        "numbered": g.clone(),
    }


CELLS = [
    rounded,
    guarded,
    nothing_times,
    difference,
    left_sum,
    right_sum,
    quotients,
    inverse,
    negated_comparison,
    powers,
    literals,
    numbered,
]


def together(cells: list[rnnc.Cell]) -> rnnc.Cell:
    """A cell of all: one kernel computes each from gates, states and constants of its own."""
    parts: dict[str, list[object]] = {"gates": [], "states": [], "constants": [], "updates": []}
    for number, cell in enumerate(cells):
        names = []
        for kind in ("gates", "states", "constants"):
            for each in getattr(cell, kind):
                parts[kind].append(each.model_copy(update={"name": f"{each.name}{number}"}))
                names.append(each.name)
        own = rf"\b({'|'.join(names)})\b"
        parts["updates"] += [re.sub(own, rf"\g<0>{number}", str(u)) for u in cell.updates]
    return rnnc.Cell(name="together", **parts)


def scanned(
    inputs: dict[str, list[Tensor]], backend: str
) -> dict[str, tuple[tuple[Tensor, ...], Tensor]]:
    """Of each cell the states at all steps, and the gradient of their sum by its inputs."""
    wx = torch.stack([t for c in CELLS for t in inputs[c.name][: len(c.gates)]], -1)
    wx = wx.clone().requires_grad_()
    over_time, _ = rnnc.scan(together(CELLS), wx, backend=backend)
    loss = sum(y.sum() for y in over_time if y.requires_grad)
    gradients = torch.autograd.grad(loss, wx)[0].split([len(c.gates) for c in CELLS], -1)
    states = iter(over_time)
    return {
        c.name: (tuple(next(states).detach() for _ in c.states), gradient)
        for c, gradient in zip(CELLS, gradients, strict=True)
    }


@cache
def step_of_all(dtype: torch.dtype, backend: str) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Inputs, and the first state of each cell after a step."""
    inputs = [3 * torch.randn(2, 1, 1, 50, dtype=dtype) for _ in range(3)]
    inputs[0].view(-1)[:4] = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0])
    found = scanned({c.name: inputs for c in CELLS}, backend)
    return inputs, {name: first for name, ((first, *_), _) in found.items()}


# Kernels of float64 have the text of those of float32.
@pytest.mark.parametrize(
    ("dtype", "backend"),
    [
        (torch.float32, "cpu"),
        pytest.param(torch.float64, "cpu", marks=pytest.mark.slow),
        (torch.float32, "reference"),
        (torch.float64, "reference"),
    ],
    ids=str,
)
@pytest.mark.parametrize("cell", CELLS, ids=lambda c: c.name)
def test_a_step_is_torch_s_own(cell, dtype, backend):
    inputs, found = step_of_all(dtype, backend)
    got, wanted = found[cell.name], twins(*inputs)[cell.name]
    # Exact, but for contraction and the last digit of a power.
    exact = cell is not powers
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(got[:, 0], wanted[:, 0], equal_nan=True, **tolerance)


def test_gradients_are_those_of_the_reference():
    inputs = {
        c.name: [3 * torch.randn(2, 3, 1, 50, dtype=torch.float64) for _ in range(3)] for c in CELLS
    }
    inputs["literals"][0] = inputs["literals"][0].abs() + 1
    found, wanted = (scanned(inputs, backend) for backend in ("cpu", "reference"))
    for name, (right, right_gradient) in wanted.items():
        values, gradient = found[name]
        for got, value in zip(values, right, strict=True):
            torch.testing.assert_close(
                got, value, rtol=1e-12, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}"
            )
        torch.testing.assert_close(
            *(gradient, right_gradient),
            rtol=1e-9,
            atol=1e-9,
            msg=lambda text, name=name: f"{name}: {text}",
        )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_kahan_s_sum_keeps_what_a_plain_sum_loses(backend):
    steps = 20_000
    wx = torch.full((1, steps, 1, 1, 1), 0.1, dtype=torch.float32)
    (total, _), _ = rnnc.scan(kahan, wx[:, : steps if backend == "cpu" else 2000], backend=backend)
    wanted = total.shape[1] * float(torch.tensor(0.1, dtype=torch.float32))
    assert abs(total[0, -1].item() - wanted) <= 2e-7 * wanted
    plain = wx.view(-1)[: total.shape[1]].cumsum(0)[-1].item()
    if backend == "cpu":
        naive = torch.zeros((), dtype=torch.float32)
        for value in wx.view(-1):
            naive = naive + value
        assert abs(naive.item() - wanted) > 1e-5 * wanted, plain


@rnnc.cell
def spiking(g: Gate = INPUT, v: State = state(), s: State = state()):
    """A surrogate gradient: the value is 0 or 1, exactly."""
    v = 0.9 * v - stop_gradient(s) + g
    u = v * g - 1
    slope = 1 / (1 + (3 * u) ** 2)
    return v, where(u > 0, 1.0, 0.0) + stop_gradient(slope) * (u - stop_gradient(u))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)], ids=str
)
def test_a_surrogate_s_spikes_are_binary(dtype, backend):
    wx = torch.randn(4, 30, 1, 40, 1, dtype=dtype, requires_grad=True)
    (_, spikes), _ = rnnc.scan(spiking, wx, backend=backend)
    assert set(spikes.unique().tolist()) == {0.0, 1.0}
    (gradient,) = torch.autograd.grad(spikes.sum(), wx)
    assert (gradient != 0).float().mean() > 0.9


# Bits may depend on the flags, values within tolerances do not.
by_flags = pytest.mark.parametrize(
    "compiled", ["quick", pytest.param("shipped", marks=pytest.mark.slow)], indirect=True
)


@by_flags
def test_a_state_of_a_number_has_no_gradient(compiled):
    wx = torch.randn(2, 4, 1, 3, 1, dtype=torch.float64)
    s = torch.randn(2, 1, 3, dtype=torch.float64, requires_grad=True)
    h = torch.zeros_like(s)
    for backend in ("cpu", "reference"):
        (first, second), _ = rnnc.scan(numbered, wx, states=(h, s), backend=backend)
        assert (second == 1).all()
        (d_s,) = torch.autograd.grad(first.sum(), s)
        assert (d_s == 1).all()


@by_flags
def test_substeps_and_chains_agree_with_the_reference(compiled):
    @rnnc.cell
    def fitzhugh(g: Gate, v: State, w: State):
        for _ in range(8):
            v, w = v + 0.1 * (v - v**3 / 3 - w + g), w + 0.008 * (v + 0.7 - 0.8 * w)
        return v, w

    @rnnc.cell
    def chained(g: Gate, h: State):
        x = g
        for i in range(1000):
            x = x * 0.99 + h if i % 2 else x - 0.01 * g
        return tanh(0.01 * x)

    for cell in (fitzhugh, chained):
        wx = torch.randn(2, 3, 1, 6, 1, dtype=torch.float64, requires_grad=True)
        R = (0.1 * torch.randn(1, 1, 6, 6, dtype=torch.float64)).requires_grad_()
        results = []
        for backend in ("cpu", "reference"):
            over_time, _ = rnnc.scan(cell, wx, R, torch.zeros(1, 1, 6).double(), backend=backend)
            results.append((over_time[0], *torch.autograd.grad(over_time[0].sum(), [wx, R])))
        for got, wanted in zip(*results, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)


@rnnc.cell
def straight_through(
    z: Gate = INPUT, v: Gate = INPUT, w: Gate = INPUT, c: Gate = INPUT, h: State = state()
):
    u = z * w
    hard = where(u > 0, 1, 0)
    slope = v * (u - stop_gradient(u)) + v * (stop_gradient(u) + (-u))
    return hard + slope + v * (clip_gradient(u, c) - u)


def test_a_value_less_itself_is_no_rounding_error_of_a_product():
    text = emit_function("f", derive(straight_through).forward, "zvwch", ())
    assert text.count("u*real(0) + real(0)") == 3
    assert "- stop_gradient" not in text
    assert "- u" not in text


@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)]
)
def test_a_straight_through_value_is_binary(dtype):
    wx = torch.randn(3, 7, 1, 33, 4, dtype=dtype)
    (h,), _ = rnnc.scan(straight_through, wx, backend="cpu")
    assert torch.equal(h, (wx[..., 0] * wx[..., 2] > 0).to(dtype)), h.unique()
