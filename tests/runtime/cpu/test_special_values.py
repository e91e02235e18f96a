"""NaN, infinities, zeros, ties, tiny and huge numbers: values and slopes equal torch's."""

from __future__ import annotations

import math
import re
from functools import cache, partial
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
    "relu6(x)": F.relu6,
    "hardtanh(x)": F.hardtanh,
    "hardsigmoid(x)": F.hardsigmoid,
    "hardswish(x)": F.hardswish,
    "softsign(x)": F.softsign,
    "mish(x)": F.mish,
    "tan(x)": torch.tan,
    "atan(x)": torch.atan,
    "sinh(x)": torch.sinh,
    "cosh(x)": torch.cosh,
    "asinh(x)": torch.asinh,
    "log1p(x)": torch.log1p,
    "expm1(x)": torch.expm1,
    "log2(x)": torch.log2,
    "exp2(x)": torch.exp2,
    "heaviside(x)": lambda x: torch.where(x.isnan(), x.detach(), (x.detach() > 0).to(x.dtype)),
    "floor(x)": torch.floor,
    "ceil(x)": torch.ceil,
    "trunc(x)": torch.trunc,
    "round(x)": torch.round,
    **{f"x**{n}": partial(torch.pow, exponent=n) for n in (0.3, -2.5, 1.7, 1025)},
    **{f"({n})**x": partial(torch.pow, n) for n in (2, 0, -1.5)},
    "clip(x, -0.75, 0.5)": lambda x: torch.clamp(x, -0.75, 0.5),
    "stop_gradient(x)": lambda x: x.detach(),
    "clip_gradient(x, 0.25)": lambda x: x,
}
TWO = {
    "maximum(x, y)": torch.maximum,
    "minimum(x, y)": torch.minimum,
    "where(x > y, x, y)": lambda x, y: torch.where(x > y, x, y),
    "x**y": torch.pow,
    "remainder(x, y)": torch.remainder,
    "fmod(x, y)": torch.fmod,
    "atan2(x, y)": torch.atan2,
    **{f"lerp(x, y, {w})": partial(torch.lerp, weight=w) for w in (0.3, 0.5, 1, -0.75)},
    "lerp(x, 0.5, y)": lambda x, y: torch.lerp(x, torch.tensor(0.5, dtype=x.dtype), y),
    "with_gradient(x, y)": OfSecond.apply,
}


# At 0 their results depend on its sign.
SIGN_OF_ZERO = ("rsqrt", "reciprocal", "log(", "log2", "sqrt", "x**", "remainder", "fmod", "atan2")
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


# Where torch in float32 overflows on the way, its result in float64 counts too.
ON_THE_WAY = ("hardswish", "atan2")
# The reference takes whole tensors, where torch's vectors have other NaNs than its scalars.
OTHER_VECTORS = ("relu6", "hardtanh", "hardswish", "remainder", "fmod")


def also_right(text, function, columns, seed, backend):
    """Other results of torch that count, as those of `theirs`."""
    if text.startswith(ON_THE_WAY) and seed.dtype == torch.float32:
        values, slopes = theirs(function, [c.double() for c in columns], seed.double())
        yield values.float(), [s.float() for s in slopes]
    if text.startswith(OTHER_VECTORS) and backend == "reference":
        leaves = [c.clone().requires_grad_() for c in columns]
        output = function(*leaves)
        yield output.detach(), gradients(output, seed, leaves)


def check(text, function, backend, dtype):
    columns = points_of(text, dtype)
    seed = torch.full_like(columns[0], 0.5)
    (number,) = (i for i, texts in enumerate(KERNELS) if text in texts)
    got = results_of_kernel(number, backend, dtype)[text]
    wanted = theirs(function, columns, seed)
    if text.startswith("clip_gradient"):
        wanted = wanted[0], [torch.full_like(seed, 0.25)]
    eps = 20 * torch.finfo(seed.dtype).eps
    # Of a subnormal number, of a slope that is a difference near its zero, where torch's softplus
    # is a line, and of the slope of its hardsigmoid, a difference of that size is rounding.
    tiny = {
        **dict.fromkeys(("gelu(x)", "softsign(x)", "expm1(x)"), eps),
        "softplus(x)": 2e-9,
        "hardsigmoid(x)": 4e-9,
    }.get(text, 4 * torch.finfo(seed.dtype).tiny)
    # A gate is a sum that begins with 0: the sign of a zero is lost.
    signed = text.startswith(SIGN_OF_ZERO)
    kept = torch.stack([~((c == 0) & c.signbit()) for c in columns]).all(0) if signed else seed > 0
    wanted = [wanted, *also_right(text, function, columns, seed, backend)]
    wrong = []
    for what, found, *right in (
        ("value", got[0], *(values for values, _ in wanted)),
        *(("slope", *each) for each in zip(got[1], *(slopes for _, slopes in wanted), strict=True)),
    ):
        alike = [torch.isclose(found, r, rtol=eps, atol=tiny, equal_nan=True) for r in right]
        for i in (~torch.stack(alike).any(0) & kept).nonzero().flatten().tolist():
            at = [c[i].item() for c in columns]
            wrong.append(f"{what} of {text} at {at}: {found[i].item()}, torch {right[0][i].item()}")
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
    found = {"pow" if "**" in text else text.partition("(")[0] for text in (*ONE, *TWO)}
    assert found == {*TABLE}


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_gate_keeps_no_sign_of_a_zero(backend):
    """As docs/language.md says: other tests of this file leave that sign out."""

    @rnnc.cell
    def inverse(h: rnnc.State, *, g: rnnc.Gate = rnnc.gate(recurrent=False, bias=False)):
        return rnnc.reciprocal(g)

    wx = torch.tensor([-0.0, 0.0]).view(1, 1, 1, 2, 1)
    (h,), _ = rnnc.scan(inverse, wx, backend=backend)
    assert h.flatten().tolist() == [math.inf, math.inf]
    assert torch.reciprocal(wx).flatten().tolist() == [-math.inf, math.inf]
