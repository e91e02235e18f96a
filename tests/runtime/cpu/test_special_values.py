"""NaN, infinities, zeros, ties, tiny and huge numbers: values and slopes equal torch's."""

from __future__ import annotations

import math
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
}


def gradients(output, seed, inputs):
    """Zeros where nothing passes."""
    if not output.requires_grad:
        return [torch.zeros_like(x) for x in inputs]
    return torch.autograd.grad(output, inputs, seed, allow_unused=True, materialize_grads=True)


def ours(text, columns, seed, backend):
    """A function of gates whose shares of the input are the values."""
    names = ["x", "y"][: len(columns)]
    cell = rnnc.Cell(
        name="special",
        gates=tuple(Gate(name=n, recurrent=False, bias=False) for n in names),
        states=(State(name="h"),),
        updates=(text,),
    )
    leaves = [c.clone().requires_grad_() for c in columns]
    wx = torch.stack(leaves, -1)[None, None, None]
    over_time, _ = rnnc.scan(cell, wx, backend=backend)
    output = over_time[0].flatten()
    return output.detach(), gradients(output, seed, leaves)


def theirs(function, columns, seed):
    leaves = [c.clone().requires_grad_() for c in columns]
    output = function(*leaves)
    return output.detach(), gradients(output, seed, leaves)


def check(text, function, columns, backend):
    seed = torch.full_like(columns[0], 0.5)
    got, wanted = ours(text, columns, seed, backend), theirs(function, columns, seed)
    if text.startswith("clip_gradient"):
        wanted = wanted[0], [torch.full_like(seed, 0.25)]
    eps = 20 * torch.finfo(seed.dtype).eps
    # Of a subnormal number, of a slope that is a difference near its zero, and where torch's
    # softplus is a line, a difference of that size is rounding.
    tiny = {"gelu(x)": eps, "softplus(x)": 2e-9}.get(text, 4 * torch.finfo(seed.dtype).tiny)
    pairs = [
        ("value", got[0], wanted[0]),
        *(("slope", *p) for p in zip(got[1], wanted[1], strict=True)),
    ]
    wrong = []
    for what, g, w in pairs:
        same = torch.isclose(g, w, rtol=eps, atol=tiny, equal_nan=True)
        for i in (~same).nonzero().flatten().tolist():
            at = [c[i].item() for c in columns]
            wrong.append(f"{what} of {text} at {at}: {g[i].item()}, torch {w[i].item()}")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("text", ONE)
def test_functions_of_one_argument(text, backend, dtype):
    # A gate is a sum that begins with 0: the sign of a zero is lost.
    signed = text.partition("(")[0] in ("rsqrt", "reciprocal", "log", "sqrt")
    points = [p for p in POINTS if not (signed and str(p) == "-0.0")]
    check(text, ONE[text], [torch.tensor(points, dtype=dtype)], backend)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("text", TWO)
def test_functions_of_two_arguments(text, backend, dtype):
    """All pairs, so that ties and NaN on either side are there."""
    pairs = torch.tensor([*product(POINTS, POINTS)], dtype=dtype)
    check(text, TWO[text], [pairs[:, 0].clone(), pairs[:, 1].clone()], backend)


def test_every_function_of_the_table_is_here():
    assert {text.partition("(")[0] for text in (*ONE, *TWO)} == {*TABLE}
