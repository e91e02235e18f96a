"""Derived adjoints against autograd in float64, for the library's cells and random ones."""

from __future__ import annotations

import pytest
import rnnc
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rnnc import sigmoid, stop_gradient, tanh, where, with_gradient
from rnnc.cellspec.declare import Constant, Gate, Param, State
from rnnc.cellspec.expression.node import Node, compare, number, symbol
from rnnc.cellspec.functions import TABLE
from rnnc.codegen import reverse_mode
from rnnc.codegen.derive import Pointwise, derive, derived
from rnnc.codegen.program import Program
from rnnc.runtime.targets.reference import evaluate

from ..one_stage import ONE_STAGE


def run(program: Program, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Run a program as it stands, statement by statement."""
    values = dict(values)
    like = next(iter(values.values()))
    for statement in program.statements:
        (values[statement.target.name],) = evaluate([statement.value], values, like)
    return {o.name: values[o.name] for o in program.outputs}


def check_against_autograd(pointwise: Pointwise, values: dict[str, torch.Tensor]) -> None:
    cell = pointwise.cell
    constants = {c.name: torch.tensor(c.value, dtype=torch.float64) for c in cell.constants}
    leaves = {k: v.requires_grad_() for k, v in values.items()}
    like = next(iter(leaves.values()))
    updates = evaluate(cell.updates, leaves | constants, like)
    news = {f"{s.name}_next": u.expand_as(like) for s, u in zip(cell.states, updates, strict=True)}
    got = run(pointwise.forward, leaves | constants)
    for name, wanted in news.items():
        torch.testing.assert_close(got[name].expand_as(wanted), wanted, rtol=1e-12, atol=1e-12)
    seeds = {f"d_{name}": torch.randn_like(like) for name in news}
    total = sum((news[n] * seeds[f"d_{n}"]).sum() for n in news)
    given_values = {k: v.detach() for k, v in {**leaves, **constants, **news, **got}.items()}
    needed = {s.name for s in pointwise.backward.inputs}
    # What `saved` and `reads` leave out must not be needed: it is not given.
    always = {d.name for d in (*cell.params, *cell.inputs)}
    kept = {*pointwise.saved, *pointwise.reads, *always, *constants}
    assert needed - {*seeds} <= kept
    given_values = {k: v for k, v in given_values.items() if k in kept}
    result = run(pointwise.backward, given_values | seeds)
    names = list(leaves)
    if total.requires_grad:
        wanted_d = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    else:
        wanted_d = [None] * len(names)
    unasked = {i.name for i in cell.inputs if not i.has_gradient}
    assert {f"d_{name}" for name in unasked}.isdisjoint(result)
    for name, wanted in zip(names, wanted_d, strict=True):
        if name in unasked:
            continue
        found = result[f"d_{name}"].expand_as(like)
        reference = torch.zeros_like(like) if wanted is None else wanted
        torch.testing.assert_close(
            found, reference, rtol=1e-9, atol=1e-9, msg=lambda m, n=name: f"d_{n}: {m}"
        )


def check_both_ways(cell: rnnc.Cell, values: dict[str, torch.Tensor]) -> None:
    """Check the adjoint that sympy rearranges, and the one of long cells."""
    check_against_autograd(derive(cell), {n: v.clone() for n, v in values.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reverse_mode, "_LONGEST_SEARCHED", 0)
        check_against_autograd(derived.__wrapped__(cell, True, False), values)


# `run` takes the statements of straight lines.
STRAIGHT = [n for n in ONE_STAGE if "repeat" not in str(rnnc.cells.get(n))]


@pytest.mark.parametrize("name", STRAIGHT)
def test_library_cells(name):
    cell = rnnc.cells.get(name)
    declared = [d.name for d in (*cell.gates, *cell.states, *cell.inputs, *cell.params)]
    values = {n: torch.randn(50, dtype=torch.float64) for n in declared}
    if name == "slstm":
        values["n"] = values["n"].abs() + 0.1
    check_both_ways(cell, values)


def test_what_the_backward_needs():
    assert derive(rnnc.cells.elman).saved == ()
    assert derive(rnnc.cells.elman).reads == ("h_next",)
    assert derive(rnnc.cells.lstm).reads == ("c", "c_next")
    assert derive(rnnc.cells.lstm).saved == ("sigmoid_i", "sigmoid_f", "tanh_z", "sigmoid_o")
    # Two functions of f, and i inside a difference: those gates are kept as they are.
    assert derive(rnnc.cells.slstm).saved == ("i", "f", "tanh_z", "sigmoid_o")
    assert "tanh(" not in str(derive(rnnc.cells.slstm).backward)


def test_what_a_gradient_goes_to_is_computed_in_the_backward_alone():
    @rnnc.cell
    def spiking(g: Gate, s: State, v: State):
        v = tanh(g) + v
        spike = with_gradient(where(v > 1, 1, 0), of=sigmoid(4 * v))
        return spike, v - stop_gradient(with_gradient(spike, of=g))

    found = derive(spiking)
    assert str(found.forward) == (
        "tanh_g = tanh(g)\n"
        "t0 = tanh_g + v\n"
        "s_next = where((t0 > 1), 1, 0)\n"
        "v_next = t0 - stop_gradient(s_next)"
    )
    assert "where" not in str(found.backward)
    assert found.saved == ("tanh_g",)


def test_lstm_backward_takes_at_most_40_operations():
    assert derive(rnnc.cells.lstm).backward.operations <= 40


def test_gradient_rules_at_ties_are_those_of_torch():
    """The points where a derivative does not exist: the table owns a value, and torch's is it."""
    one_sided = ["relu", "leaky_relu", "elu", "abs", "maximum", "minimum", "clip", "where"]
    one_sided += ["relu6", "hardtanh", "hardsigmoid", "hardswish", "atan2", "round"]
    for name in one_sided:
        function = TABLE[name]
        arguments = {
            "maximum": ("g", "h"),
            "minimum": ("g", "h"),
            "atan2": ("g", "h"),
            "clip": ("g", -0.5, 0.5),
            "where": None,
        }.get(name, ("g", *function.defaults))
        g, h = symbol("g"), symbol("h")
        symbols = {"g": g, "h": h}
        update = (
            function.of(compare(">", g, h), g * g, h * 3)
            if arguments is None
            else function.of(*(symbols.get(a, a) for a in arguments))
        )
        cell = rnnc.Cell(
            name="tie",
            gates=(Gate(name="g"),),
            states=(State(name="h"),),
            updates=(update + h * 0.125,),
        )
        ties = torch.tensor([0.0, 0.0, 0.5, -0.5, 0.25, -1, 1, -3, 3, 6], dtype=torch.float64)
        others = torch.tensor([0.0, 1.0, 0.5, -0.5, 0.25, -1, 2, 0, 3, 6], dtype=torch.float64)
        check_both_ways(cell, {"g": ties.clone(), "h": others.clone()})


# Random cells. Every function of the table; arguments held where it and its slope are moderate.

_BOUNDED = {"exp", "elu", "sin", "cos", "square", "reciprocal", "log", "sqrt", "rsqrt"}
_BOUNDED |= {"log1p", "log2", "exp2", "expm1", "sinh", "cosh", "tan"}


@st.composite
def expressions(draw: st.DrawFn, names: tuple[str, ...], depth: int) -> Node:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.integers(0, 4)) == 0:
            return number(draw(st.floats(-2, 2).filter(lambda v: abs(v) > 1e-3)))
        return symbol(draw(st.sampled_from(names)))
    part = expressions(names, depth - 1)
    kind = draw(st.sampled_from(["+", "-", "*", "/", "**", *TABLE]))
    if kind in TABLE:
        return _apply(draw, kind, part)
    a = draw(part)
    if kind == "**":
        return TABLE["tanh"].of(a) ** draw(st.integers(2, 4))
    b = draw(part)
    if kind == "/":
        return a / (1 + TABLE["square"].of(b))
    return {"+": a + b, "-": a - b, "*": a * TABLE["tanh"].of(b)}[kind]


def _apply(draw: st.DrawFn, name: str, part: st.SearchStrategy[Node]) -> Node:
    if name == "where":
        a, b = draw(part), draw(part)
        relation = draw(st.sampled_from(["<", "<=", ">", ">="]))
        return TABLE[name].of(compare(relation, a, b), draw(part), draw(part))
    if name in ("maximum", "minimum", "atan2", "with_gradient"):
        return TABLE[name].of(draw(part), draw(part))
    if name in ("pow", "remainder", "fmod"):
        first = draw(part) if name != "pow" else TABLE["tanh"].of(draw(part)) + 1.5
        exponent = draw(st.sampled_from([None, 0.3, -2.5, 1.0]))
        second = TABLE["tanh"].of(draw(part)) + 1.5
        return TABLE[name].of(first, second if exponent is None else number(exponent))
    if name == "lerp":
        return TABLE[name].of(draw(part), draw(part), draw(part))
    if name == "clip":
        return TABLE[name].of(draw(part), number(-0.75), number(0.5))
    if name == "clip_gradient":
        return TABLE[name].of(draw(part), number(0.5))
    argument = draw(part)
    if name in _BOUNDED:
        argument = TABLE["tanh"].of(argument)
    if TABLE[name].domain[0] > -2 or name == "reciprocal":
        argument = argument + number(1.5)
    return TABLE[name].of(argument, *map(number, TABLE[name].defaults))


NAMES = ("g", "k", "h", "c", "w")


@st.composite
def random_cells(draw: st.DrawFn) -> rnnc.Cell:
    first = draw(expressions((*NAMES, "alpha"), 4))
    second = draw(expressions((*NAMES, "alpha"), 4))
    # Every name is used, and the states differ, as the language demands.
    g, k, h, c, w, alpha = map(symbol, (*NAMES, "alpha"))
    return rnnc.Cell(
        name="random",
        gates=(Gate(name="g"), Gate(name="k")),
        states=(State(name="h"), State(name="c")),
        params=(Param(name="w"),),
        constants=(Constant(name="alpha", value=0.3),),
        updates=(first + g * w, second + k * alpha - c * h),
    )


def examples(count):
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )


def check_random_cell(cell):
    values = {n: torch.randn(20, dtype=torch.float64) for n in NAMES}
    check_both_ways(cell, values)
    assert rnnc.Cell.from_json(cell.to_json()) == cell


@examples(100)
@given(random_cells())
def test_random_cells(cell):
    check_random_cell(cell)


@pytest.mark.slow
@examples(2000)
@given(random_cells())
def test_many_more_random_cells(cell):
    check_random_cell(cell)
