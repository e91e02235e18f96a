"""Every function of the table: torch value, gradient and float32 C++ agree over its range."""

from __future__ import annotations

import builtins
import re

import pytest
import rnnc
import torch
from rnnc import (
    clip,
    elu,
    leaky_relu,
    maximum,
    replace_gradient,
    stop_gradient,
    tanh,
    where,
    with_gradient,
)
from rnnc.cellspec.declare import Gate, State
from rnnc.cellspec.expression.text import from_text
from rnnc.cellspec.functions import TABLE, ElementwiseFunction

ONE_ARGUMENT = [f for f in TABLE.values() if len(f.arguments) - len(f.defaults) == 1]
# Where the float32 result or its slope has to be right: the shoulders, the tails, the extremes.
POINTS = [0.0, 1e-30, 1e-6, 0.3, 1.0, 3.0, 9.0, 17.0, 20.0, 30.0, 80.0, 88.0, 89.0, 100.0, 1e4]


def test_the_table_has_what_the_language_promises():
    promised = """sigmoid tanh relu leaky_relu elu gelu silu softplus logsigmoid exp log sqrt rsqrt
    abs sign square sin cos erf maximum minimum clip where stop_gradient clip_gradient
    heaviside floor ceil trunc round atan asinh sinh cosh tan softsign hardsigmoid hardtanh
    hardswish mish relu6 log1p expm1 log2 exp2 pow remainder fmod atan2 lerp
    with_gradient""".split()
    assert set(promised) <= set(TABLE)
    for name in promised:
        assert getattr(rnnc, name) is TABLE[name]
        # A star import replaces no builtin: Python's own abs, round and pow work as well.
        assert (name in rnnc.__all__) is not hasattr(builtins, name)


def test_rows_are_written_from_functions_that_the_headers_have():
    """A row's C++ calls only primitives: so a source needs just the rows that it uses."""
    primitives = {f.name for f in TABLE.values() if not f.cpp} | {"expm1", "log1p"}
    for function in TABLE.values():
        called = set(re.findall(r"\b([a-z_]\w*)\(", function.cpp)) - {"real"}
        assert called <= primitives, function.name
        assert function.doc
        assert function.latex


def cell_of_all(functions: list[ElementwiseFunction]) -> rnnc.Cell:
    """A state and a gate for each function: one kernel computes the whole table."""
    return rnnc.Cell(
        name="table",
        gates=tuple(Gate(name=f"g_{f.name}", recurrent=False, bias=False) for f in functions),
        states=tuple(State(name=f"y_{f.name}") for f in functions),
        updates=tuple(f.of(from_text(f"g_{f.name}"), *f.defaults) for f in functions),
    )


def table_values(x: torch.Tensor, backend: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Value and slope of every function of one argument at the points x."""
    cell = cell_of_all(ONE_ARGUMENT)
    count = len(ONE_ARGUMENT)
    wx = x.view(1, 1, 1, -1, 1).repeat(1, 1, 1, 1, count).requires_grad_()
    over_time, _ = rnnc.scan(cell, wx, backend=backend)
    (slopes,) = torch.autograd.grad(sum(y.sum() for y in over_time if y.requires_grad), wx)
    return {
        function.name: (y.detach().view(-1), slopes[..., i].reshape(-1))
        for i, (function, y) in enumerate(zip(ONE_ARGUMENT, over_time, strict=True))
    }


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_float32_over_the_whole_range(backend):
    x = torch.tensor(sorted({s * p for p in POINTS for s in (-1, 1)}), dtype=torch.float32)
    x = torch.cat([x, torch.randn(1000)])
    wanted = table_values(x.double(), "reference")
    got = table_values(x, backend)
    largest = torch.finfo(torch.float32).max
    for function in ONE_ARGUMENT:
        if function.name in ("sinh", "cosh") and backend == "reference":
            continue  # torch's vectors are infinite from 88.7 on
        inside = (x > function.domain[0]) & (x < function.domain[1])
        inside &= x != 0 if function.name == "reciprocal" else True
        for what, value, truth in zip(
            ("value", "slope"), got[function.name], wanted[function.name], strict=True
        ):
            place = (function.name, what)
            # What float32 cannot hold must be infinite, and nothing else may be.
            representable = inside & (truth.abs() < 0.99 * largest)
            assert not value[inside].isnan().any(), place
            assert value[representable].isfinite().all(), place
            beyond = inside & (truth.abs() > 1.01 * largest)
            assert value[beyond].isinf().all(), place
            error = (value.double() - truth).abs()[representable]
            # Rounding inside at the size of x, times the slope, comes on top of that of the result;
            # below 1e-36 float32 runs out of exponents.
            conditioning = (x.double() * wanted[function.name][1]).abs()[representable]
            bound = 4e-7 * (truth.abs()[representable] + conditioning.nan_to_num(0.0, 0.0)) + 1e-36
            if what == "slope":
                bound = bound + 4e-7
            if function.name in ("sin", "cos", "gelu", "mish", "tan"):
                bound = bound + 4e-7
            worst = (error - bound).argmax()
            assert (error <= bound).all(), (place, x[representable][worst], error[worst])


def test_twins_of_two_and_three_arguments_and_their_gradients():
    g, k = torch.randn(2, 500, dtype=torch.float64)
    wx = torch.stack([g, k], -1).view(1, 1, 1, 500, 2).requires_grad_()
    texts = {
        "maximum": "maximum(g, k)",
        "minimum": "minimum(g, k)",
        "clip": "clip(g, -0.5, 0.7)*k",
        "clip_by_gate": "clip(g, k - 0.5, k + 0.5)",
        "where": "where((g > k) & (k > 0), sin(g), k)",
        "either": "where((g > 1) | (k > 1), g, k*k)",
        "leaky_relu": "leaky_relu(g, 0.2)*k",
        "slope": "leaky_relu(g, k)",
        "elu": "elu(g, k)",
        "clip_gradient": "clip_gradient(g, 0.1)*k",
        "power": "g**5 - k**-2",
    }
    cell = rnnc.Cell(
        name="pairs",
        gates=tuple(Gate(name=n, recurrent=False, bias=False) for n in ("g", "k")),
        states=tuple(State(name=n + "_state") for n in texts),
        updates=tuple(texts.values()),
    )
    both = {b: rnnc.scan(cell, wx, backend=b)[0] for b in ("cpu", "reference")}
    for name, got, wanted in zip(texts, both["cpu"], both["reference"], strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12, msg=name)
        d_got, d_wanted = (
            torch.autograd.grad((y * y.detach()).sum(), wx, retain_graph=True)[0]
            for y in (got, wanted)
        )
        torch.testing.assert_close(d_got, d_wanted, rtol=1e-11, atol=1e-11, msg=f"d {name}")


def test_reference_twins_are_torch_s_functions():
    """The reference is checked against torch.nn.functional itself, where it has the function."""
    x = torch.randn(200, dtype=torch.float64)
    functional = torch.nn.functional
    own = table_values(x.abs() + 0.1, "reference") | {
        k: v for k, v in table_values(x, "reference").items() if TABLE[k].domain[0] < 0
    }
    for name, twin in {
        "sigmoid": torch.sigmoid,
        "relu": functional.relu,
        "leaky_relu": functional.leaky_relu,
        "elu": functional.elu,
        "gelu": lambda v: functional.gelu(v, approximate="tanh"),
        "silu": functional.silu,
        "softplus": functional.softplus,
        "logsigmoid": functional.logsigmoid,
        "rsqrt": torch.rsqrt,
        "erf": torch.erf,
    }.items():
        point = (x if TABLE[name].domain[0] < 0 else x.abs() + 0.1).clone().requires_grad_()
        value = twin(point)
        (slope,) = torch.autograd.grad(value.sum(), point)
        torch.testing.assert_close(own[name][0], value.detach(), rtol=1e-9, atol=1e-9, msg=name)
        torch.testing.assert_close(own[name][1], slope, rtol=1e-9, atol=1e-9, msg=name)


def test_arguments_by_name():
    @rnnc.cell
    def named(g: rnnc.Gate, h: rnnc.State):
        h = with_gradient(h, of=g) + with_gradient(of=g, value=1)
        a = leaky_relu(g, slope=0.2) + clip(g, low=-1, high=1) + clip(high=g, x=h, low=-1)
        return a + where(g > 0, b=h, a=tanh(x=g)) + elu(x=g) + maximum(g, b=h)

    @rnnc.cell
    def by_place(g: rnnc.Gate, h: rnnc.State):
        h = with_gradient(h, g) + with_gradient(1, g)
        a = leaky_relu(g, 0.2) + clip(g, -1, 1) + clip(h, -1, g)
        return a + where(g > 0, tanh(g), h) + elu(g) + maximum(g, h)

    assert named.updates == by_place.updates


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda g: clip(g, lo=-1, high=1), "no argument 'lo' of clip"),
        (lambda g: clip(g, -1, x=g), "x given twice"),
        (lambda g: clip(g, high=1), "clip with 2 argument(s)"),
        (lambda g: tanh(), "tanh with 0 argument(s)"),
        (lambda g: clip(g, 1, 2, 3), "clip with 4 argument(s)"),
        (lambda g: with_gradient(g, to=g), "no argument 'to' of with_gradient"),
        (lambda g: with_gradient(g), "with_gradient with 1 argument(s)"),
        (lambda g: replace_gradient(1, 2, 3), "replace_gradient(1, 2, 3)"),
        (lambda g: clip(0.1, low=-1, high=1), "clip(0.1, low=-1, high=1)"),
    ],
)
def test_wrong_arguments_by_name(call, found):
    def wrong(g: rnnc.Gate, h: rnnc.State):
        return call(g)

    with pytest.raises(rnnc.CellError) as caught:
        rnnc.cell(wrong)
    assert f"found:  {found}\n" in str(caught.value)
    line = call.__code__.co_firstlineno
    assert re.match(rf"wrong, .*test_functions\.py:{line}\n", str(caught.value))


def test_replace_gradient_is_with_gradient():
    @rnnc.cell
    def replaced(g: rnnc.Gate, u: rnnc.Gate, h: rnnc.State):
        return replace_gradient(where(g > 0, 1, 0), g, slope=u) + replace_gradient(h, x=u, slope=2)

    @rnnc.cell
    def written(g: rnnc.Gate, u: rnnc.Gate, h: rnnc.State):
        spike = with_gradient(where(g > 0, 1, 0), of=stop_gradient(u) * g)
        return spike + with_gradient(h, of=2 * u)

    assert replaced.updates == written.updates


def test_calls_outside_a_cell():
    with pytest.raises(rnnc.CellError, match="a gate, state, param or constant of the cell among"):
        rnnc.tanh(1.0)
    assert repr(rnnc.elu) == (
        "<rnnc function elu(x, alpha=1.0): x above 0, alpha * (exp(x) - 1) below"
        " (Clevert et al., 2016)>"
    )
