"""Functions near 0 and at the ends of their range: values and slopes of kernels, against mpmath.

torch itself overflows, underflows or cancels at some of these points.
"""

from __future__ import annotations

from functools import cache

import mpmath as mp
import pytest
import rnnc
import torch
from rnnc import Gate, State
from rnnc.cellspec.expression.node import symbol
from rnnc.cellspec.functions import TABLE

SIZES = [1e-30, 1e-12, 1e-7, 1e-4, 0.01, 0.1, 0.45, 0.9, 1.1, 2.0, 3.5, 5.9, 12.0]
SIZES += [20.5, 45.0, 88.2, 103.0, 2e3, 1e10, 3e20, 1e38]
POINTS = [sign * size for size in SIZES for sign in (1, -1)]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(150):
        yield


def softplus(x):
    return mp.log1p(mp.exp(x))


def hard(x):
    return min(max(x + 3, 0), 6) / mp.mpf(6)


def trunc(x):
    return mp.sign(x) * mp.floor(abs(x))


def no_slope(x):
    return mp.mpf(0)


# By name, the value and the slope in each argument.
FUNCTIONS = {
    "relu6": (lambda x: min(max(x, 0), 6), lambda x: mp.mpf(0 < x < 6)),
    "hardtanh": (lambda x: min(max(x, -1), 1), lambda x: mp.mpf(-1 < x < 1)),
    "hardsigmoid": (hard, lambda x: mp.mpf(-3 < x < 3) / 6),
    "hardswish": (lambda x: x * hard(x), lambda x: hard(x) + x * mp.mpf(-3 < x < 3) / 6),
    "softsign": (lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2),
    "mish": (
        lambda x: x * mp.tanh(softplus(x)),
        lambda x: mp.tanh(softplus(x)) + x * mp.sech(softplus(x)) ** 2 / (1 + mp.exp(-x)),
    ),
    "tan": (mp.tan, lambda x: mp.sec(x) ** 2),
    "atan": (mp.atan, lambda x: 1 / (1 + x * x)),
    "sinh": (mp.sinh, mp.cosh),
    "cosh": (mp.cosh, mp.sinh),
    "asinh": (mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x)),
    "log1p": (mp.log1p, lambda x: 1 / (1 + x)),
    "expm1": (mp.expm1, mp.exp),
    "log2": (lambda x: mp.log(x, 2), lambda x: 1 / (x * mp.log(2))),
    "exp2": (lambda x: mp.mpf(2) ** x, lambda x: mp.mpf(2) ** x * mp.log(2)),
    "heaviside": (lambda x: mp.mpf(x > 0), no_slope),
    "floor": (mp.floor, no_slope),
    "ceil": (mp.ceil, no_slope),
    "trunc": (trunc, no_slope),
    "round": (mp.nint, no_slope),
    "pow": (
        *(lambda a, b: a**b, lambda a, b: b * a ** (b - 1)),
        lambda a, b: a**b * mp.log(a),
    ),
    "atan2": (
        *(mp.atan2, lambda a, b: b / (a * a + b * b)),
        lambda a, b: -a / (a * a + b * b),
    ),
    "remainder": (
        *(lambda a, b: a - b * mp.floor(a / b), lambda a, b: mp.mpf(1)),
        lambda a, b: -mp.floor(a / b),
    ),
    "fmod": (
        *(lambda a, b: a - b * trunc(a / b), lambda a, b: mp.mpf(1)),
        lambda a, b: -trunc(a / b),
    ),
    "lerp": (
        *(lambda a, b: a + (b - a) / 4, lambda a, b: mp.mpf(0.75)),
        lambda a, b: mp.mpf(0.25),
    ),
}
MORE = {"lerp": (0.25,)}  # the arguments that are numbers


def points_of(name, dtype):
    """The points of a function, in each of which its arguments are exact."""
    count = len(FUNCTIONS[name]) - 1
    pairs = [(p,) for p in POINTS] if count == 1 else [(a, b) for a in POINTS for b in POINTS]
    low = 0 if name == "pow" else TABLE[name].domain[0]
    return torch.tensor([p for p in pairs if p[0] > low], dtype=dtype)


@cache
def kernel(count, dtype):
    """By name, points, values and slopes of all functions of so many arguments, by one kernel."""
    names = [name for name, parts in FUNCTIONS.items() if len(parts) == count + 1]
    points = {name: points_of(name, dtype) for name in names}
    most = max(map(len, points.values()))
    gates = [[f"{letter}{i}" for letter in "ab"[:count]] for i in range(len(names))]
    cell = rnnc.Cell(
        name="ends",
        gates=tuple(Gate(name=g, recurrent=False, bias=False) for own in gates for g in own),
        states=tuple(State(name=f"h{i}") for i in range(len(names))),
        updates=tuple(
            TABLE[name].of(*map(symbol, own), *MORE.get(name, ()))
            for name, own in zip(names, gates, strict=True)
        ),
    )
    filled = [torch.cat([p, p[:1].expand(most - len(p), -1)]) for p in points.values()]
    wx = torch.cat(filled, 1)[None, None, None].requires_grad_()
    over_time, _ = rnnc.scan(cell, wx, backend="cpu")
    asked = [y for y in over_time if y.requires_grad]
    (slopes,) = torch.autograd.grad(asked, wx, [torch.ones_like(y) for y in asked])
    of_each = slopes.view(most, len(names), count).unbind(1)
    return {
        name: (points[name], torch.cat([y.detach().view(-1, 1), s], 1))
        for name, y, s in zip(names, over_time, of_each, strict=True)
    }


def jumps_near(name, point, eps):
    """Whether the quotient of a remainder may be rounded to another whole number."""
    if name not in ("fmod", "remainder"):
        return False
    quotient = point[0] / point[1]
    return 0 < abs(quotient - mp.nint(quotient)) <= 4 * eps * abs(quotient)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_slopes_keep_their_digits(name, dtype):
    limits = torch.finfo(dtype)
    points, found = kernel(len(FUNCTIONS[name]) - 1, dtype)[name]
    wrong = []
    for row, got in zip(points.tolist(), found.tolist(), strict=False):
        point = [mp.mpf(x) for x in row]
        for place, (function, value) in enumerate(zip(FUNCTIONS[name], got, strict=True)):
            truth = function(*point)
            if abs(truth) > limits.max:
                right = abs(value) == mp.inf and mp.sign(value) == mp.sign(truth)
            elif place and jumps_near(name, point, limits.eps):
                right = abs(value - truth) <= 1 + 8 * limits.eps * abs(truth)
            else:
                # An exponent minus 1 is rounded; mish's slope and lerp are differences.
                rounded = abs((point[1] - 1) * mp.log(point[0])) if name == "pow" and place else 0
                bound = 8 * limits.eps * (1 + rounded) * abs(truth) + 2 * limits.tiny / limits.eps
                bound += 4 * limits.eps * (name == "mish" and place)
                bound += limits.eps * sum(map(abs, point)) * (name == "lerp" and not place)
                right = abs(value - truth) <= bound
            if not right:
                wrong.append(f"{('value', 'slope', 'slope')[place]} at {row}: {value}, {truth}")
    assert not wrong, "\n".join(wrong[:20])


def test_all_rows_with_a_free_name_are_here():
    """But `with_gradient`, which has the value of one argument and the gradient of the other."""
    rows = {name for name, row in TABLE.items() if row.free_name}
    assert rows - {"with_gradient"} == {*FUNCTIONS}
