"""The advice in the errors of wrong cells works when it is followed."""

from __future__ import annotations

import itertools
import math
import re

import pytest
import rnnc
import torch
from torch import Tensor

HEAD = """import math
import numpy as np
import rnnc
import torch
from rnnc import (
    Constant, Gate, Param, State, atan2, constant, erf, exp, floor, gate, log, log1p, maximum,
    minimum, param, sign, sqrt, state, tanh, where,
)

"""
_numbers = itertools.count()


class Author:
    """Writes cells into files, as people do."""

    def __init__(self, folder) -> None:
        self.folder = folder

    def cell(self, signature: str, body: str, decorator: str = "@rnnc.cell") -> rnnc.Cell:
        path = self.folder / f"cell_{next(_numbers)}.py"
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        path.write_text(f"{HEAD}{decorator}\ndef advised({signature}):\n{lines}")
        scope: dict[str, object] = {}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        return scope["advised"]

    def advice(self, signature: str, body: str) -> str:
        with pytest.raises(rnnc.CellError) as caught:
            self.cell(signature, body)
        return caught.value.write


@pytest.fixture
def author(tmp_path):
    return Author(tmp_path)


def step(cell: rnnc.Cell, gates: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
    """The states after one step from states, with no recurrent share: gates are the input's."""
    pairs = len(cell.dense_pairs)
    R = gates.new_zeros(pairs, 1, gates.shape[-2], gates.shape[-2]) if pairs else None
    _, last = rnnc.scan(
        cell,
        gates[:, None, None],
        R,
        states=[s[:, None] for s in states],
        backend="reference",
        params={p.name: torch.full(gates.shape[1:2], p.init)[None].double() for p in cell.params},
    )
    return tuple(s[:, 0] for s in last)


def same(cell: rnnc.Cell, expected, states: int = 1) -> None:
    """The cell computes what is expected of its gates and states."""
    gates = torch.randn(64, 2, len(cell.input_gates), dtype=torch.float64)
    before = torch.randn(states, 64, 2, dtype=torch.float64)
    after = step(cell, gates, *before)
    wanted = expected(*gates.unbind(-1), *before)
    for got, value in zip(after, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(got, value, rtol=1e-12, atol=1e-12)


def code(advice: str) -> str:
    """The code that an advice starts with."""
    return re.split(r", (?:for|where) |; for ", advice)[0]


G_H = "g: Gate, h: State"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("(h > 0) * h", lambda g, h: torch.where(h > 0, h, 0)),
        ("h * (h > 0)", lambda g, h: torch.where(h > 0, h, 0)),
        ("0.5 * (h > 0)", lambda g, h: torch.where(h > 0, 0.5, 0).double()),
    ],
)
def test_the_advised_expression_takes_the_place_of_the_wrong_one(author, wrong, expected):
    right = code(author.advice(G_H, f"return g + {wrong}"))
    same(author.cell(G_H, f"return g + {right}"), lambda g, h: g + expected(g, h))


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("g - (h > 0)", lambda g, h: g - (h > 0).double()),
        ("(h > 0) + g", lambda g, h: g + (h > 0).double()),
        ("g / (2 - (h > 0))", lambda g, h: g / (2 - (h > 0).double())),
        ("g - -(h > 0)", lambda g, h: g + (h > 0).double()),
        ("g + tanh(h > 0)", lambda g, h: g + torch.tanh((h > 0).double())),
    ],
)
def test_a_condition_in_a_sum_becomes_one_or_zero(author, wrong, expected):
    right = author.advice(G_H, f"return {wrong}")
    assert right == "where(h > 0, 1, 0)"
    same(author.cell(G_H, f"return {wrong.replace('h > 0', right)}"), expected)


def test_a_condition_as_a_new_value_becomes_one_or_zero(author):
    right = author.advice(G_H, "return g > h")
    same(author.cell(G_H, f"return {right}"), lambda g, h: (g > h).double())


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("(g > 0) ^ (h > 0)", lambda g, h: (g > 0) ^ (h > 0)),
        ("(g > 0) != (h > 0)", lambda g, h: (g > 0) != (h > 0)),
        ("(g > 0) == (h > 0)", lambda g, h: (g > 0) == (h > 0)),
        ("(g > 0) == ~((h > 0) & (g > h))", lambda g, h: (g > 0) == ~((h > 0) & (g > h))),
    ],
)
def test_conditions_are_compared_by_joining_them(author, wrong, expected):
    right = author.advice(G_H, f"return where({wrong}, g, h)")
    cell = author.cell(G_H, f"return where({right}, g, h)")
    same(cell, lambda g, h: torch.where(expected(g, h), g, h))


@pytest.mark.parametrize("wrong", ["g > 0 & h > 0", "g > 0 & (h > 0)", "(g > 0) & h > 0"])
def test_comparisons_are_joined_in_brackets(author, wrong):
    advice = author.advice(G_H, f"return where({wrong}, g, h)")
    assert advice.startswith("(a > 0) & (b > 0)")
    right = "(a > 0) & (b > 0)".replace("a", "g").replace("b", "h")
    same(
        author.cell(G_H, f"return where({right}, g, h)"),
        lambda g, h: torch.where((g > 0) & (h > 0), g, h),
    )


def test_a_negated_condition(author):
    assert "~ negates one" in author.advice(G_H, "return where(not g > 0, g, h)")
    cell = author.cell(G_H, "return where(~(g > 0), g, h)")
    same(cell, lambda g, h: torch.where(g > 0, h, g))


@pytest.mark.parametrize(
    ("wrong", "advised", "followed", "expected"),
    [
        ("x // y", "floor(x / y)", "floor(x / y)", lambda x, y: torch.floor(x / y)),
        ("np.floor_divide(x, y)", "floor(x / y)", "floor(x / y)", lambda x, y: (x / y).floor()),
        (
            *("divmod(x, y)[0]", "floor(x / y) and x % y"),
            *("floor(x / y) + x % y", lambda x, y: torch.floor(x / y) + x % y),
        ),
        (
            *("round(x, 2)", "round(100 * x) / 100"),
            *("round(100 * x) / 100", lambda x, y: torch.round(x, decimals=2)),
        ),
        (
            *("round(x, -1)", "10 * round(x / 10)"),
            *("10 * round(x / 10)", lambda x, y: torch.round(x, decimals=-1)),
        ),
        (
            *("math.remainder(x, y)", "x - y * round(x / y)"),
            *("x - y * round(x / y)", lambda x, y: x - y * torch.round(x / y)),
        ),
        (
            *("math.log10(x)", "log(x) / 2.302585092994046"),
            *("log(x) / 2.302585092994046", lambda x, y: torch.log10(x)),
        ),
        (
            *("np.hypot(x, y)", "sqrt(x * x + y * y)"),
            *("sqrt(x * x + y * y)", torch.hypot),
        ),
        (
            *("np.logaddexp(x, y)", "maximum(a, b) + log1p(exp(-abs(a - b)))"),
            *("maximum(x, y) + log1p(exp(-abs(x - y)))", torch.logaddexp),
        ),
    ],
)
def test_what_has_no_row_is_an_expression_of_rows(author, wrong, advised, followed, expected):
    body = "x, y = 9 + g, 2 + tanh(h)\nreturn {}"
    assert author.advice(G_H, body.format(wrong)) == advised
    cell = author.cell(G_H, body.format(followed))
    same(cell, lambda g, h: expected(9 + g, 2 + h.tanh()))


@pytest.mark.parametrize(
    ("wrong", "advised", "expected"),
    [
        ("math.acos(x)", "atan2(sqrt(1 - x * x), x)", lambda x, b: x.acos()),
        ("math.acosh(x)", "log(x + sqrt(x * x - 1))", lambda x, b: (1 + x).acosh()),
        ("np.arcsin(x)", "atan2(x, sqrt(1 - x * x))", lambda x, b: x.asin()),
        ("np.arctanh(x)", "log1p(2 * x / (1 - x)) / 2", lambda x, b: x.atanh()),
        ("np.cbrt(x)", "sign(x) * abs(x) ** (1 / 3)", lambda x, b: x.sign() * x.abs() ** (1 / 3)),
        ("math.erfc(x)", "1 - erf(x)", lambda x, b: x.erfc()),
        ("torch.add(a, b)", "a + b", lambda a, b: a + b),
        ("torch.sub(a, b)", "a - b", lambda a, b: a - b),
        ("torch.mul(a, b)", "a * b", lambda a, b: a * b),
        ("torch.true_divide(a, b)", "a / b", lambda a, b: a / b),
        ("math.copysign(a, b)", "where(b < 0, -abs(a), abs(a))", torch.copysign),
        ("math.log(x, 3)", "log(x) / math.log(3)", lambda x, b: x.log() / math.log(3)),
        ("math.log(x, b)", "log(x) / log(b)", lambda x, b: x.log() / b.log()),
        ("torch.special.log1p(x)", "log1p(x)", lambda x, b: x.log1p()),
        ("float(x)", "x", lambda x, b: x),
        ("where(np.logical_and(a > 0, b > 0), 1, 0)", "(a > 0) & (b > 0)", lambda a, b: a * 0 + 1),
        ("where(np.logical_or(a > 0, b > 0), 1, 0)", "(a > 0) | (b > 0)", lambda a, b: a * 0 + 1),
        ("where(torch.logical_not(a > 0), 1, 0)", "~(a > 0)", lambda a, b: a * 0),
        ("(a > 0)(b)", "where(a > 0, b, 0)", lambda a, b: b),
        ("(b < a)(a, 2 * b)", "where(b < a, a, 2*b)", lambda a, b: torch.where(b < a, a, 2 * b)),
        ("(a + b)(a - b)", "(a + b) * (a - b)", lambda a, b: (a + b) * (a - b)),
        ("pow(a, 2, 3)", "a**2 % 3", lambda a, b: a**2 % 3),
        ("pow(2, x, 3)", "2**x % 3", lambda x, b: 2**x % 3),
        ("pow(a + b, 2, 3.5)", "(a + b)**2 % 3.5", lambda a, b: (a + b) ** 2 % 3.5),
        ("pow(4, 2 * a, b)", "4**(2 * a) % b", lambda a, b: 4 ** (2 * a) % b),
        ("int(a > b)", "where(a > b, 1, 0)", lambda a, b: (a > b).double()),
        ("round(x, b)", "round(100 * x) / 100", lambda x, b: x.round(decimals=2)),
        ("np.round(x, 2)", "round(100 * x) / 100", lambda x, b: x.round(decimals=2)),
        ("torch.clamp(x, min=0.5)", "maximum(x, low)", lambda x, b: x.clamp(min=0.5)),
    ],
)
def test_an_advised_expression_works_with_the_arguments_of_the_call(
    author, wrong, advised, expected
):
    # The names of the advice, here of gates.
    signature = "a: Gate, x: Gate, b: Gate, h: State"
    assert advised in author.advice(signature, f"return a * x * b * h + {wrong}")
    followed = f"where({advised}, 1, 0)" if wrong.startswith("where(") else advised
    above = "x = 1 + x\n" if "acosh" in wrong else ""
    body = f"{above}return (a + x + b + h) * 0 + {followed.replace('low', '0.5')}"
    cell = author.cell(signature, body)
    gates = 0.1 + 0.8 * torch.rand(64, 2, 3, dtype=torch.float64)
    (after,) = step(cell, gates, torch.zeros(64, 2, dtype=torch.float64))
    a, x, b = gates.unbind(-1)
    torch.testing.assert_close(after, expected(x if "x" in advised else a, b))


FUNCTIONS = """sin cos tan atan atan2 asinh sinh cosh tanh exp expm1 exp2 log log1p log2 sqrt fabs
fmod erf isnan pow int""".split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_math_names_ours_with_its_arguments(author, name):
    call = {"int": "int(g)", "atan2": "math.atan2(g, h)", "fmod": "math.fmod(g, h)"}
    written = call.get(name, "math.pow(g, h)" if name == "pow" else f"math.{name}(g)")
    advice = author.advice(G_H, f"return h + {written}")
    follow(author, advice)


@pytest.mark.parametrize(
    ("wrong", "advised"),
    [
        ("np.clip(h, -1, 1)", "clip(x, low, high)"),
        ("np.where(g > 0, g, h)", "where(condition, a, b)"),
        ("np.maximum(g, h)", "maximum(a, b)"),
        ("np.max(g)", "maximum(a, b)"),
        ("np.round(g)", "round(x)"),
        ("np.rint(g)", "round(x)"),
        ("np.fix(g)", "trunc(x)"),
        ("np.absolute(g)", "abs(x)"),
        ("np.arctan2(g, h)", "atan2(a, b)"),
        ("np.arcsinh(g)", "asinh(x)"),
        ("torch.clamp(g, -1, 1)", "clip(x, low, high)"),
        ("torch.max(g, h)", "maximum(a, b)"),
        ("torch.min(g, h)", "minimum(a, b)"),
        ("torch.where(g > 0, g, h)", "where(condition, a, b)"),
        ("torch.lerp(g, h, 0.5)", "lerp(a, b, weight)"),
        ("torch.nn.functional.leaky_relu(g)", "leaky_relu(x, slope=0.01)"),
        ("torch.pow(g, h)", "a ** b"),
        ("g.clamp(-1, 1)", "clip(x, low, high)"),
        ("g.detach()", "stop_gradient(x)"),
        ("sum(h)", "total(x)"),
        ("max(h)", "largest(x)"),
        ("min(h)", "-largest(-x)"),
        ("math.fsum(h)", "total(x)"),
        ("np.mean(h)", "mean(x)"),
        ("torch.sum(h)", "total(x)"),
        ("torch.amax(h)", "largest(x)"),
        ("torch.softmax(h, -1)", "softmax(x)"),
        ("h.softmax(-1)", "softmax(x)"),
        ("h.mean()", "mean(x)"),
        ("h.sum()", "total(x)"),
        ("min(g, h)", "minimum(a, b)"),
        ("max(g, h)", "maximum(a, b)"),
    ],
)
def test_a_function_of_a_library_names_ours_with_its_arguments(author, wrong, advised):
    advice = author.advice(G_H, f"return {wrong} + g")
    assert advised in advice
    follow(author, advice)


def follow(author: Author, advice: str) -> None:
    """The advised call is an expression of the language, when its arguments are values."""
    found = re.match(r"(from rnnc import \w+), and (.*)", code(advice))
    statement, call = found.groups() if found else ("import rnnc", code(advice))
    for part in re.findall(r"\w+\([^()]*\)|a \*\* b", call):
        values = re.sub(r"slope=0\.01", "0.01", part)
        values = re.sub(r"\b(low|weight)\b", "-0.5", re.sub(r"\bhigh\b", "0.5", values))
        values = re.sub(r"\bcondition\b", "g > h", re.sub(r"\b[xa]\b", "g", values))
        values = re.sub(r"\bb\b", "h", values)
        author.cell(G_H, f"{statement}\nreturn {values} + g * h")


def test_a_matrix_product_in_the_body_is_a_gate(author):
    advice = author.advice("r: Gate, z: Gate, h: State", "return r * R(h) + z")
    assert advice == "R: Gate = gate(input=False) in the signature, for a product with a matrix"
    signature = f"r: Gate, z: Gate, h: State, {advice.split(' in the ')[0]}"
    cell = author.cell(signature, "return r * R(h) + z")
    assert [(p.gate, p.source) for p in cell.dense_pairs][-1] == ("R", "h")
    same(cell, lambda r, z, h: z)
    product = author.cell(signature, "return R(tanh(r) * h) + z")
    assert [(p.gate, p.source) for p in product.dense_pairs][-1] == ("R", "R()")


@pytest.mark.parametrize(
    "argument", ["alpha=0.1", "alpha: float = 0.1", "alpha: Constant = 0.1", "alpha: Constant"]
)
def test_a_number_in_the_signature_is_a_constant(author, argument):
    signature = f"g: Gate = gate(), h: State = state(), {argument}"
    if argument == "alpha: Constant":
        signature = "g: Gate, h: State, alpha: Constant"
    advice = author.advice(signature, "return alpha * tanh(g)")
    assert advice == "alpha: Constant = constant(0.1)"
    cell = author.cell(signature.replace(argument, advice), "return alpha * tanh(g)")
    same(cell, lambda g, h: 0.1 * g.tanh())


def test_plain_numbers_as_defaults_of_states_and_params(author):
    for argument in ("w: Param = 0.5", "h: State = 0.25", "g: Gate = 1"):
        names = {"g": "g: Gate = gate()", "h": "h: State = state()", "w": "w: Param = param(0.5)"}
        before = names | {argument[0]: argument}
        advice = author.advice(", ".join(before.values()), "return w * tanh(g)")
        after = names | {argument[0]: advice}
        cell = author.cell(", ".join(after.values()), "return w * tanh(g)")
        if argument[0] == "h":
            assert cell.states[0].init == 0.25
        else:
            same(cell, lambda g, h: 0.5 * g.tanh())


def test_new_values_by_name_are_returned_in_order(author):
    signature = "g: Gate, h: State, c: State"
    body = "c = 0.5 * c + g\nvalues = dict(c=c, h=tanh(c))\n{}"
    advice = author.advice(signature, body.format("return values"))
    cell = author.cell(signature, body.format(code(advice)))
    same(cell, lambda g, h, c: (torch.tanh(0.5 * c + g), 0.5 * c + g), states=2)


def test_a_symbol_s_text_has_no_digits(author):
    advice = author.advice(G_H, 'text = f"{g:.2f}"\nreturn tanh(g)')
    right = code(advice).split(", which")[0]
    same(author.cell(G_H, f"assert {right} == 'g'\nreturn tanh(g)"), lambda g, h: g.tanh())


def test_a_source_is_a_state_s_name(author):
    body = "return tanh(g) + c, h * c"
    advice = author.advice("h: State, c: State, g: Gate = gate(source=lambda h: h)", body)
    cell = author.cell(f"h: State, c: State, *, g: Gate = {code(advice)}", body)
    assert cell.dense_pairs[0].source == "h"
    same(cell, lambda g, h, c: (g.tanh() + c, h * c), states=2)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return abs(g)", lambda g, h: g.abs()),
        ("return g + 2 ** h", lambda g, h: g + 2**h),
        ("return math.e ** (g + h)", lambda g, h: torch.exp(g + h)),
        ("return g + np.float64(2) ** h", lambda g, h: g + 2**h),
        ("return g + abs(h) ** 0.3", lambda g, h: g + h.abs() ** 0.3),
        ("return abs(h) ** (g + h)", lambda g, h: h.abs() ** (g + h)),
        ("return (1.001 + 0.001 * g) ** 2000", lambda g, h: (1.001 + 0.001 * g) ** 2000),
        ("return round(3 * g) + h", lambda g, h: torch.round(3 * g) + h),
        ("return math.floor(3 * g) + h", lambda g, h: torch.floor(3 * g) + h),
        ("return math.ceil(3 * g) + h", lambda g, h: torch.ceil(3 * g) + h),
        ("return math.trunc(3 * g) + h", lambda g, h: torch.trunc(3 * g) + h),
        ("return g % 0.7 - 2.5 % h", lambda g, h: g % 0.7 - 2.5 % h),
        ("return h ** 2.0 + g", lambda g, h: h**2 + g),
        ("return np.float64(0.5) * tanh(g)", lambda g, h: 0.5 * g.tanh()),
        ("return where(np.float32(0.5) < g, g, h)", lambda g, h: torch.where(g > 0.5, g, h)),
    ],
)
def test_what_needs_no_advice(author, body, expected):
    same(author.cell(G_H, body), expected)


def test_python_s_own_abs(tmp_path):
    author = Author(tmp_path)
    cell = author.cell(G_H, "import builtins\nreturn builtins.abs(g)")
    same(cell, lambda g, h: g.abs())


def test_a_decorator_with_brackets(author):
    same(author.cell(G_H, "return tanh(g)", "@rnnc.cell()"), lambda g, h: g.tanh())


def test_a_number_as_a_state_s_new_value(author):
    cell = author.cell("g: Gate, h: State, c: State", "return tanh(g) + c, 1.0")
    same(cell, lambda g, h, c: (g.tanh() + c, torch.ones_like(c)), states=2)
    advice = author.advice(G_H, "return 1.0")
    assert advice == "a signature without `g`, or an equation with it"
    same(author.cell(G_H, "return 1.0 + 0.5 * g"), lambda g, h: 1 + 0.5 * g)


def test_a_body_may_loop_as_deeply_as_it_likes(author):
    recursion = "def deep(x):\n    return deep(tanh(x + h))\nreturn deep(g)"
    assert author.advice(G_H, recursion) == "a loop in place of the recursion"
    cell = author.cell(G_H, "x = g\nfor _ in range(3000):\n    x = x * 0.999 + h\nreturn x")
    assert rnnc.Cell.from_json(cell.to_json()) == cell
    power = 0.999**3000
    same(cell, lambda g, h: power * g + h * (1 - power) / (1 - 0.999))


@pytest.mark.parametrize("deep", ["(" * 300 + "tanh(g)" + ")" * 300, "-" * 5000 + "tanh(g)"])
def test_deep_texts_in_json_name_their_parts(deep):
    text = rnnc.cells.elman.to_json()
    with pytest.raises(rnnc.CellError) as caught:
        rnnc.Cell.from_json(text.replace("tanh(g)", deep))
    shared = re.match(r'("shared": \[\["t0", "tanh\(g\)"\]), …\]', caught.value.write)
    named = text.replace("tanh(g)", "-t0").replace("{", "{" + shared[1] + "], ", 1)
    same(rnnc.Cell.from_json(named), lambda g, h: -g.tanh())
