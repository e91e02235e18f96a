"""Functions of two-byte elements, value and slope, at every number of [-30, 30].

The largest relative error of each binade of the result is at most twice that of torch, which
computes in float32 and rounds once; where torch is exact, one unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import rnnc
import torch
from rnnc import Gate, State, gate, sigmoid, tanh, where
from rnnc.cellspec.functions import TABLE
from torch import Tensor
from torch.nn import functional

UNITS = 64


def logistic(x: Tensor) -> Tensor:
    e = torch.exp(-x.abs())
    return torch.where(x < 0, e / (1 + e), 1 / (1 + e))


def gelu_inner(x: Tensor) -> tuple[Tensor, Tensor]:
    """Twice the argument of gelu's tanh, and its slope."""
    scale = 2 * (2 / torch.pi) ** 0.5
    return scale * (x + 0.044715 * x**3), scale * (1 + 3 * 0.044715 * x**2)


def gelu_slope(x: Tensor) -> Tensor:
    z, slope = gelu_inner(x)
    return logistic(z) * (1 + x * logistic(-z) * slope)


def log_of_sigmoid(x):
    return rnnc.log(rnnc.sigmoid(x))


# By name: ours; torch's; in float64 the value and the slope, without a difference that cancels.
FUNCTIONS: dict[str, tuple[Callable, Callable, Callable, Callable]] = {
    "sigmoid": (
        *(rnnc.sigmoid, torch.sigmoid, logistic),
        lambda x: logistic(x) * logistic(-x),
    ),
    "tanh": (rnnc.tanh, torch.tanh, torch.tanh, lambda x: 1 / torch.cosh(x) ** 2),
    "elu": (
        *(rnnc.elu, functional.elu, lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0)))),
        lambda x: torch.exp(x.clamp(max=0)),
    ),
    "softplus": (
        *(rnnc.softplus, functional.softplus, lambda x: torch.logaddexp(x, torch.zeros_like(x))),
        logistic,
    ),
    "logsigmoid": (
        *(
            rnnc.logsigmoid,
            functional.logsigmoid,
            lambda x: -torch.logaddexp(-x, torch.zeros_like(x)),
        ),
        lambda x: logistic(-x),
    ),
    "silu": (
        *(rnnc.silu, functional.silu, lambda x: x * logistic(x)),
        lambda x: logistic(x) * (1 + x * logistic(-x)),
    ),
    "gelu": (
        *(rnnc.gelu, lambda x: functional.gelu(x, approximate="tanh")),
        *(lambda x: x * logistic(gelu_inner(x)[0]), gelu_slope),
    ),
    "log of sigmoid": (
        *(log_of_sigmoid, lambda x: torch.log(torch.sigmoid(x))),
        *(lambda x: -torch.logaddexp(-x, torch.zeros_like(x)), lambda x: logistic(-x)),
    ),
}


def zero(x: Tensor) -> Tensor:
    return torch.zeros_like(x)


def hard(x: Tensor) -> Tensor:
    return (x + 3).clamp(0, 6) / 6


def mish_parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """tanh(softplus(x)) and its slope, without a difference that cancels."""
    a = torch.exp(-x.abs())
    over, under = 1 + 2 * a + 2 * a**2, 2 + 2 * a + a**2
    value = torch.where(x > 0, (1 + 2 * a) / over, a * (2 + a) / under)
    slope = torch.where(x > 0, a**2 * (1 + a) / over**2, a * (1 + a) / under**2)
    return value, 4 * slope


# The rows with a free name, in the same form. Numbers are exact in two bytes.
FUNCTIONS |= {
    name: (getattr(rnnc, name), of_torch, of_torch, slope)
    for name, of_torch, slope in (
        ("relu6", functional.relu6, lambda x: ((x > 0) & (x < 6)).double()),
        ("hardtanh", functional.hardtanh, lambda x: (x.abs() < 1).double()),
        ("softsign", functional.softsign, lambda x: (1 + x.abs()) ** -2),
        ("tan", torch.tan, lambda x: torch.cos(x) ** -2),
        ("atan", torch.atan, lambda x: 1 / (1 + x**2)),
        ("sinh", torch.sinh, torch.cosh),
        ("cosh", torch.cosh, torch.sinh),
        ("asinh", torch.asinh, lambda x: torch.rsqrt(1 + x**2)),
        ("log1p", torch.log1p, lambda x: 1 / (1 + x)),
        ("expm1", torch.expm1, torch.exp),
        ("log2", torch.log2, lambda x: 1 / (x * math.log(2))),
        ("exp2", torch.exp2, lambda x: torch.exp2(x) * math.log(2)),
        ("floor", torch.floor, zero),
        ("ceil", torch.ceil, zero),
        ("trunc", torch.trunc, zero),
        ("round", torch.round, zero),
    )
}
FUNCTIONS |= {
    "hardsigmoid": (
        *(rnnc.hardsigmoid, functional.hardsigmoid, hard),
        lambda x: (x.abs() < 3) / 6.0,
    ),
    "hardswish": (
        *(rnnc.hardswish, functional.hardswish, lambda x: x * hard(x)),
        lambda x: torch.where(x.abs() < 3, x / 3 + 0.5, hard(x)),
    ),
    "mish": (
        *(rnnc.mish, functional.mish, lambda x: x * mish_parts(x)[0]),
        lambda x: mish_parts(x)[0] + x * mish_parts(x)[1],
    ),
    "heaviside": (
        rnnc.heaviside,
        # With a slope of 0, as the row has one.
        lambda x: torch.where(x.isnan(), x, (x > 0).to(x.dtype)) + 0 * torch.floor(x.nan_to_num()),
        *(lambda x: (x > 0).double(), zero),
    ),
    "pow": (
        *(lambda x: x**1.75, lambda x: x**1.75, lambda x: x**1.75),
        lambda x: 1.75 * x**0.75,
    ),
    "pow of a number": (
        *(lambda x: 1.5**x, lambda x: 1.5**x, lambda x: 1.5**x),
        lambda x: 1.5**x * math.log(1.5),
    ),
    "remainder": (
        *(lambda x: x % 0.75, lambda x: x % 0.75, lambda x: x % 0.75),
        torch.ones_like,
    ),
    "fmod": (
        *(lambda x: rnnc.fmod(x, 0.75), lambda x: torch.fmod(x, 0.75)),
        *(lambda x: torch.fmod(x, 0.75), torch.ones_like),
    ),
    "atan2": (
        lambda x: rnnc.atan2(x, 1.5),
        *[lambda x: torch.atan2(x, torch.full_like(x, 1.5))] * 2,
        lambda x: 1.5 / (x**2 + 2.25),
    ),
    "lerp": (
        lambda x: rnnc.lerp(x, 2, 0.25),
        *[lambda x: torch.lerp(x, torch.full_like(x, 2), 0.25)] * 2,
        lambda x: torch.full_like(x, 0.75),
    ),
}


def test_every_row_with_a_free_name_is_here() -> None:
    """But `with_gradient`, which has the value of one argument and the gradient of the other."""
    rows = {name for name, row in TABLE.items() if row.free_name}
    assert rows - {"with_gradient"} <= {*FUNCTIONS}


def every_number(dtype: torch.dtype) -> Tensor:
    bits = torch.arange(65536, dtype=torch.int32, device="cuda").to(torch.int16)
    numbers = bits.view(dtype)
    return numbers[numbers.float().abs() <= 30]


def ours(function: Callable, x: Tensor, variant: str) -> tuple[Tensor, Tensor]:
    """The function of each number and its slope there, by a cell of one gate."""

    def equation(h: State, *, g: Gate = gate(recurrent=False, bias=False)):
        return function(g)

    cell = rnnc.cell(equation)
    steps = -(-x.numel() // UNITS)
    wx = x.new_zeros(1, steps, 1, UNITS, 1)
    wx.view(-1)[: x.numel()] = x
    wx.requires_grad_()
    (h,), _ = rnnc.scan(
        *(cell, wx, None, None, [x.new_zeros(1, 1, UNITS)]), backend="cuda", variant=variant
    )
    (slope,) = torch.autograd.grad(h, wx, torch.ones_like(h))
    return h.detach().reshape(-1)[: x.numel()], slope.reshape(-1)[: x.numel()]


def judge(what: str, got: Tensor, own: Tensor, truth: Tensor) -> list[str]:
    """Where an error is larger than it may be."""
    limits = torch.finfo(got.dtype)
    step = limits.smallest_normal * limits.eps
    error = (got.double() - truth).abs().nan_to_num(torch.inf)
    theirs = (own.double() - truth).abs().nan_to_num(torch.inf)
    normal = (truth.abs() >= limits.smallest_normal) & truth.isfinite()
    wrong = []
    # A subnormal slope that follows from a rounded value may be torch's too, and far off.
    small = ~normal & (error > torch.maximum(2 * theirs, torch.full_like(theirs, step)))
    if small.any():
        wrong.append(f"{what}: subnormal, off by {error[small].max() / step:.1f} steps")
    binades = torch.frexp(truth)[1]
    for binade in binades[normal].unique().tolist():
        here = normal & (binades == binade)
        relative = (error[here] / truth[here].abs()).max().item()
        bound = 2 * (theirs[here] / truth[here].abs()).max().item() or limits.eps
        if not relative <= bound:
            wrong.append(f"{what}: from 2^{binade - 1}: {relative:.1e}, allowed {bound:.1e}")
    return wrong


@pytest.mark.parametrize("variant", ["auto", "alternating"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_number_is_nearly_as_exact_as_torch(name, dtype, variant):
    function, of_torch, value, slope = FUNCTIONS[name]
    x = every_number(dtype)
    got, got_slope = ours(function, x, variant)
    leaf = x.clone().requires_grad_()
    own = of_torch(leaf)
    (own_slope,) = torch.autograd.grad(own, leaf, torch.ones_like(own))
    wrong = judge("value", got, own.detach(), value(x.double()))
    wrong += judge("slope", got_slope, own_slope, slope(x.double()))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_beyond_all_numbers(name, dtype):
    """NaN stays NaN, and at infinity there is what torch has."""
    function, of_torch, _, _ = FUNCTIONS[name]
    x = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0], dtype=dtype, device="cuda")
    got, _ = ours(function, x, "auto")
    torch.testing.assert_close(got, of_torch(x), rtol=0, atol=0, equal_nan=True)


def three_sigmoids(h: State, c: State, *, i: Gate, f: Gate, o: Gate):
    c = sigmoid(i)
    return sigmoid(f) * sigmoid(o), c


@pytest.mark.parametrize("variant", ["block", "cluster", "grid", "alternating"])
def test_items_of_a_thread_near_and_far_below_zero(variant):
    """A thread whose items meet both keeps the digits of each, and an item is as it is alone."""
    cell = rnnc.cell(three_sigmoids)
    batch, steps, heads, dim = 16, 40, 2, 64
    wx = (60 * torch.rand(batch, steps, heads, dim, 3, device="cuda") - 30).bfloat16()
    R = wx.new_zeros(3, heads, dim, dim)  # so that a gate is its input, exactly

    def values(wx: Tensor) -> Tensor:
        over_time, _ = rnnc.scan(cell, wx, R, backend="cuda", variant=variant)
        return torch.stack(over_time, dim=-1)

    got = values(wx)
    i, f, o = logistic(wx.double()).unbind(-1)
    wanted = torch.stack([f * o, i], dim=-1)
    # The rounding to bfloat16 is 2^-9, and the error of a sigmoid 2^-10.9.
    torch.testing.assert_close(got.double(), wanted, rtol=1.25 * 2.0**-8, atol=0)

    near = (wx >= -6).all(-1, keepdim=True)
    assert near.any()
    assert torch.equal(got[near[..., 0]], values(wx.where(near, 0))[near[..., 0]])


@rnnc.cell
def skipped_sigmoid(h: State, *, f: Gate, g: Gate):
    """Some lanes of a warp need no sigmoid to know the condition."""
    return where((f > 0) | (sigmoid(g) > 0.5), tanh(h), -tanh(g))


@pytest.mark.parametrize("variant", ["block", "cluster", "alternating"])
def test_a_call_that_a_condition_skips_in_some_lanes(variant):
    """Lanes of a warp vote on a second pass: all of them, or those that do would wait for ever."""
    torch.manual_seed(3)
    wx = torch.randn(9, 5, 2, UNITS, 2, device="cuda").bfloat16()
    R = (torch.randn(2, 2, UNITS, UNITS, device="cuda") * 0.1).bfloat16()
    found, _ = rnnc.scan(skipped_sigmoid, wx, R, None, variant=variant)
    exact, _ = rnnc.scan(skipped_sigmoid, wx.double(), R.double(), None, backend="reference")
    near = (found[0].double() - exact[0]).abs() < 0.02
    assert near.double().mean() > 0.97  # others are near a jump of the condition
