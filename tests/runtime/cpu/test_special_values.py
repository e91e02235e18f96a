"""NaN, infinities, zeros, ties, tiny and huge numbers: values and slopes equal torch's."""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import product

import pytest
import rnnc
import torch
import torch.nn.functional as F  # noqa: N812
from rnnc.cellspec.declare import Gate, State
from rnnc.cellspec.functions import TABLE

INF, NAN = math.inf, math.nan
POINTS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.75, 1e-40, -1e-40, 1e38, -1e38, 30.0, -30.0]


# torch's own function of each row; text is the call in a cell's equation.
class OfSecond(torch.autograd.Function):
    """The first argument, with the gradient of the second."""

    @staticmethod
    def forward(ctx, x, y):
        return x.clone()

    @staticmethod
    def backward(ctx, d):
        return None, d


ONE = {
    "sigmoid(x)": torch.sigmoid,
    "tanh(x)": torch.tanh,
    "relu(x)": torch.relu,
    "leaky_relu(x, 0.01)": F.leaky_relu,
    "elu(x, 1.0)": F.elu,
    "elu(x, 0.5)": lambda x: F.elu(x, 0.5),
    "gelu(x)": lambda x: F.gelu(x, approximate="tanh"),
    "silu(x)": F.silu,
    "softplus(x)": F.softplus,
    "logsigmoid(x)": F.logsigmoid,
    "exp(x)": torch.exp,
    "log(x)": torch.log,
    "sqrt(x)": torch.sqrt,
    "rsqrt(x)": torch.rsqrt,
    "abs(x)": torch.abs,
    "sign(x)": torch.sign,
    "square(x)": torch.square,
    "reciprocal(x)": torch.reciprocal,
    "sin(x)": torch.sin,
    "cos(x)": torch.cos,
    "erf(x)": torch.erf,
    "clip(x, -0.75, 0.5)": lambda x: torch.clamp(x, -0.75, 0.5),
    "stop_gradient(x)": lambda x: x.detach(),
    "clip_gradient(x, 0.25)": lambda x: x,
}
TWO = {
    "maximum(x, y)": torch.maximum,
    "minimum(x, y)": torch.minimum,
    "where(x > y, x, y)": lambda x, y: torch.where(x > y, x, y),
    "with_gradient(x, y)": OfSecond.apply,
}


# Functions that share a kernel, each with gates and a state of its own. The compiler vectorises a
# loop if it can vectorise all of it: what it calls element by element has a kernel of its own.
BY_ELEMENT = ("sin(x)", "cos(x)", "erf(x)")
KERNELS = [[t for t in ONE if t not in BY_ELEMENT], [*BY_ELEMENT], [*TWO]]


def gradients(output, seed, inputs):
    """Zeros where nothing passes."""
    if not output.requires_grad:
        return [torch.zeros_like(x) for x in inputs]
    return torch.autograd.grad(output, inputs, seed, allow_unused=True, materialize_grads=True)


@cache
def results_of_kernel(number, backend, dtype):
    """Value and slopes of each function of a kernel, by its text."""
    texts = KERNELS[number]
    points, names = points_of(texts[0], dtype), "xy"[: 1 + (texts[0] in TWO)]
    cell = rnnc.Cell(
        name="special",
        gates=tuple(
            Gate(name=f"{n}{i}", recurrent=False, bias=False)
            for i in range(len(texts))
            for n in names
        ),
        states=tuple(State(name=f"h{i}") for i in range(len(texts))),
        updates=tuple(re.sub(r"\b[xy]\b", rf"\g<0>{i}", text) for i, text in enumerate(texts)),
    )
    leaves = [c.clone().requires_grad_() for _ in texts for c in points]
    over_time, _ = rnnc.scan(cell, torch.stack(leaves, -1)[None, None, None], backend=backend)
    outputs = [output.flatten() for output in over_time]
    slopes = torch.autograd.grad(
        [output for output in outputs if output.requires_grad],
        leaves,
        [torch.full_like(output, 0.5) for output in outputs if output.requires_grad],
        allow_unused=True,
        materialize_grads=True,
    )
    each = [slopes[i : i + len(names)] for i in range(0, len(slopes), len(names))]
    return {t: (v.detach(), s) for t, v, s in zip(texts, outputs, each, strict=True)}


def theirs(function, columns, seed):
    """Values and slopes of each point by itself: torch's vectors have other NaNs than its scalars,
    such as the slope of elu in AVX2.
    """
    values, slopes = [], []
    for point in zip(*columns, strict=True):
        leaves = [c.clone().requires_grad_() for c in point]
        output = function(*leaves)
        values.append(output.detach())
        slopes.append(gradients(output, seed[0], leaves))
    return torch.stack(values), [torch.stack(each) for each in zip(*slopes, strict=True)]


def points_of(text, dtype):
    """The points of each argument: of two arguments all pairs, so that there are ties."""
    points = product(POINTS, POINTS) if text in TWO else ((p,) for p in POINTS)
    return tuple(torch.tensor([*points], dtype=dtype).mT.contiguous())


def check(text, function, backend, dtype):
    columns = points_of(text, dtype)
    seed = torch.full_like(columns[0], 0.5)
    (number,) = (i for i, texts in enumerate(KERNELS) if text in texts)
    got = results_of_kernel(number, backend, dtype)[text]
    wanted = theirs(function, columns, seed)
    if text.startswith("clip_gradient"):
        wanted = wanted[0], [torch.full_like(seed, 0.25)]
    eps = 20 * torch.finfo(seed.dtype).eps
    # Of a subnormal number, of a slope that is a difference near its zero, and where torch's
    # softplus is a line, a difference of that size is rounding.
    tiny = {"gelu(x)": eps, "softplus(x)": 2e-9}.get(text, 4 * torch.finfo(seed.dtype).tiny)
    # A gate is a sum that begins with 0: the sign of a zero is lost.
    signed = text.partition("(")[0] in ("rsqrt", "reciprocal", "log", "sqrt")
    kept = ~((columns[0] == 0) & columns[0].signbit()) if signed else torch.ones_like(seed) > 0
    pairs = [
        ("value", got[0], wanted[0]),
        *(("slope", *p) for p in zip(got[1], wanted[1], strict=True)),
    ]
    wrong = []
    for what, g, w in pairs:
        same = torch.isclose(g, w, rtol=eps, atol=tiny, equal_nan=True)
        for i in (~same & kept).nonzero().flatten().tolist():
            at = [c[i].item() for c in columns]
            wrong.append(f"{what} of {text} at {at}: {g[i].item()}, torch {w[i].item()}")
    assert wrong == [], "\n".join(wrong)


# Kernels of float64 have the text of those of float32.
@pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        pytest.param("cpu", torch.float64, marks=pytest.mark.slow, id="cpu-dtype0"),
        pytest.param("reference", torch.float64, id="reference-dtype0"),
        pytest.param("cpu", torch.float32, id="cpu-dtype1"),
        pytest.param("reference", torch.float32, id="reference-dtype1"),
    ],
)
@pytest.mark.parametrize("text", [*ONE, *TWO])
def test_values_and_slopes_are_torchs(text, backend, dtype):
    check(text, (ONE | TWO)[text], backend, dtype)


def test_every_function_of_the_table_is_here():
    assert {text.partition("(")[0] for text in (*ONE, *TWO)} == {*TABLE}
