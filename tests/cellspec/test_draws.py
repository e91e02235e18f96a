"""Inputs that a call draws: as part of a cell, as text, and their means."""

from __future__ import annotations

import re

import pytest
import rnnc
import torch
from rnnc import Constant, Gate, Input, State, bernoulli, constant, normal, tanh, uniform, where
from rnnc.cellspec.noise.mean import bends
from rnnc.cellspec.printing.equations import equation_lines, equation_terms
from rnnc.report.card import Card
from rnnc.report.mathml import equations_of
from rnnc.report.terms import Terms


@rnnc.cell
def noisy(
    g: Gate,
    h: State,
    *,
    keep: Input = bernoulli("p", per="sequence"),
    xi: Input = normal(std=0.05),
    u: Input = uniform("low", 3),
    dt: Input,
    p: Constant = constant(0.25),
    low: Constant = constant(-1),
):
    """Uses one constant in an equation too."""
    return keep * h + (1 - keep) * tanh(g + xi) + low * u * dt


@rnnc.cell
def decaying(g: Gate, dt: Input, h: State):
    return tanh(g) + rnnc.exp(-dt) * h


def test_a_cell_without_draws_has_the_text_and_fingerprint_that_it_always_had():
    assert rnnc.cells.lstm.fingerprint.startswith("842dc7ae1b827f51")
    assert decaying.fingerprint.startswith("7af97e44699f4d62")
    assert "draw" not in decaying.to_json()
    assert repr(decaying.inputs) == "(Input(name='dt'),)"


def test_draws_are_part_of_the_cell():
    again = rnnc.Cell.from_json(noisy.to_json())
    assert again == noisy
    assert again.inputs[0].draw == bernoulli("p", per="sequence").draw
    assert list(noisy.drawn) == ["keep", "xi", "u"]
    digests = {
        rnnc.cell(function).fingerprint
        for function in (with_draw(bernoulli(0.1)), with_draw(bernoulli(0.2)), with_draw(normal()))
    }
    digests.add(rnnc.cell(with_draw(bernoulli(0.1, per="sequence"))).fingerprint)
    assert len(digests) == 4
    assert noisy.with_constants(p=0.5).fingerprint != noisy.fingerprint
    assert repr(noisy.inputs[:2]) == (
        "(Input(name='keep', draw=bernoulli('p', per='sequence')),"
        " Input(name='xi', draw=normal(0, 0.05)))"
    )


def with_draw(declared):
    def one(g: Gate, h: State, xi: Input = declared):
        return tanh(g) + xi * h

    return one


def test_equations_latex_and_mathml_have_a_line_for_each():
    lines = equation_lines(noisy)
    assert lines[1:4] == (
        "keep ~ bernoulli(p), once per sequence",
        "xi ~ normal(0, 0.05)",
        "u ~ uniform(low, 3)",
    )
    assert len(lines) == len(equation_terms(noisy))
    assert noisy.latex().splitlines()[2:5] == [
        r"\mathrm{keep}_t &\sim \mathrm{Bernoulli}\left(p\right) \text{ once per sequence} \\",
        r"\xi_t &\sim \mathcal{N}\left(0, {0.05}^2\right) \\",
        r"u_t &\sim \mathcal{U}\left(\mathrm{low}, 3\right) \\",
    ]
    shown = equations_of(noisy, Terms.of(noisy))
    assert [e.name for e in shown] == ["g", "keep", "xi", "u", "h"]
    assert "bernoulli(p), once per sequence" in shown[1].math


def test_a_card_counts_what_is_kept_of_each_step():
    shape = rnnc.Shape(1, 64, dtype="bfloat16")
    drawn, passed = Card.of(noisy, shape), Card.of(noisy.mean(), shape)
    assert drawn.drawn == ("xi", "u")
    assert drawn.kept_bytes == passed.kept_bytes + 4
    assert any(note.startswith("the mean of tanh(g + xi)") for note in drawn.notes)


def test_the_mean_is_a_cell_of_its_own():
    mean = noisy.mean()
    assert isinstance(mean, rnnc.Cell)
    assert mean.inputs == (Input(name="dt"),)
    assert {c.name: c.value for c in mean.constants} == {"low": -1, "keep": 0.25, "u": 1}
    assert mean.equations()[-1] == "h' = keep*h + (1 - keep)*tanh(g) + low*u*dt"
    assert mean.mean() is mean
    assert noisy.with_constants(p=0.5, low=1).mean().constants[1:] == (
        Constant(name="keep", value=0.5),
        Constant(name="u", value=2),
    )


def test_a_zero_that_is_added_leaves_no_trace_in_the_mean():
    noise = rnnc.noisy("lstm", 0.1).mean()
    assert noise.updates == rnnc.cells.lstm.updates
    plain = rnnc.cells.lstm.model_copy(update={"name": noise.name, "doc": noise.doc})
    assert noise.cpp().code == plain.cpp().code

    @rnnc.cell
    def twins(g: Gate, h: State, k: State, *, a: Input = normal(), b: Input = normal()):
        return tanh(g + a), tanh(b + g) * a - 0 * k

    assert twins.mean().equations()[1:] == ("h' = tanh(g)", "k' = h'*a - 0*k")

    @rnnc.cell
    def same(g: Gate, h: State, k: State, *, a: Input = normal(), b: Input = normal()):
        return tanh(g + a), tanh(g + b)

    assert same.mean().updates == same.updates


def test_a_mean_runs_where_draws_were_conditions_and_arguments_of_loops():
    @rnnc.cell
    def every(g: Gate, h: State, *, a: Input = bernoulli(0.5), b: Input = normal(mean=2)):
        held = where((a > 0.3) & (b < 3), h, tanh(a))
        return rnnc.repeat(3, lambda v: 0.5 * v + tanh(b), held) + g

    wx, R = torch.randn(2, 4, 1, 3, 1), torch.randn(1, 1, 3, 3)
    (found,), _ = rnnc.scan(every.mean(), wx, R, backend="cpu")
    means = {"a": torch.full((2, 4), 0.5), "b": torch.full((2, 4), 2.0)}
    (wanted,), _ = rnnc.scan(every, wx, R, inputs=means, backend="reference")
    torch.testing.assert_close(found, wanted)


def test_bends_are_where_a_mean_is_not_the_mean_of_results():
    @rnnc.cell
    def straight(g: Gate, h: State, *, keep: Input = bernoulli(0.1), xi: Input = normal()):
        mixed = rnnc.lerp(tanh(g), h, keep)
        return rnnc.repeat(2, lambda v: v / 2 - xi, mixed) + rnnc.clip_gradient(xi, 1) * keep

    assert bends(straight) == ()

    @rnnc.cell
    def bent(g: Gate, h: State, *, a: Input = normal(), b: Input = normal(), c: Input = normal()):
        looped = rnnc.repeat(2, lambda v: v * v, c)
        return tanh(g + a * b) + b * (g + b) + looped + 1 / c + where(a > 0, h, 1)

    assert {(names, str(node)) for names, node in bends(bent)} >= {
        ("a, b", "tanh(g + a*b)"),
        ("b", "b*(g + b)"),
        ("c", "1/c"),
        ("a", "(a > 0)"),
    }
    assert any(node.op == "repeat" for _, node in bends(bent))


@pytest.mark.parametrize(
    ("call", "found", "write"),
    [
        (lambda: bernoulli(1.5), "bernoulli(1.5)", "bernoulli(0.1)"),
        (lambda: normal(std=-1), "normal(0, -1)", "normal(mean=0, std=1)"),
        (lambda: uniform(2, 1), "uniform(2, 1)", "uniform(low=0, high=1)"),
        (lambda: uniform(-1.7e308, 1.7e308), "uniform(-1.7e+308, 1.7e+308)", "uniform(low=0"),
        (
            lambda: normal(float("nan")),
            "nan as mean of normal",
            'mean=0.1, or mean="mean" with',
        ),
        (lambda: uniform(high=True), "True as high of uniform", "high=0.1"),
        (lambda: bernoulli(10**400), "as p of bernoulli", "p=0.1"),
        (lambda: bernoulli(0.1, per="row"), "per='row'", 'per="sequence"'),
        (lambda: noisy.with_constants(p=2), "`keep`, where p = 2", "with_constants(p=0.1)"),
        (lambda: noisy.with_constants(low=4), "`u`, where low = 4", "with_constants(low=0.1"),
    ],
)
def test_wrong_draws_are_refused_where_they_are_written(call, found, write):
    with pytest.raises(rnnc.CellError) as caught:
        call()
    assert found in caught.value.found
    assert caught.value.write.startswith(write)


@pytest.mark.parametrize(
    ("draw", "wrong"),
    [
        (bernoulli("a"), {"a": 2}),
        (normal("a", "b"), {"a": 0, "b": -1}),
        (normal(3, "b"), {"b": -1}),
        (uniform("a", "b"), {"a": 3, "b": 2}),
        (uniform(7, "b"), {"b": 2}),
        (uniform("a", -7), {"a": 2}),
    ],
    ids=str,
)
def test_the_advice_for_constants_of_a_draw_works(draw, wrong):
    names = ", ".join(f"{n}: Constant = constant({{{n}}})" for n in wrong)
    text = f"def body(g: Gate, h: State, *, u: Input = draw, {names}): return g * u"

    def cell(values):
        scope = {**globals(), "draw": draw}
        exec(text.format(**values), scope)
        return rnnc.cell(scope["body"])

    with pytest.raises(rnnc.CellError) as caught:
        cell(wrong)
    advice = re.match(r"with_constants\((.*?)\)", caught.value.write)
    assert advice
    values = dict(each.split("=") for each in advice[1].split(", "))
    assert values.keys() == wrong.keys()
    assert cell(values).drawn


def unknown_constant(g: Gate, h: State, xi: Input = bernoulli("q")):
    return xi * g


def state_with_a_draw(g: Gate, h: State = bernoulli(0.1)):
    return g


def param_with_a_draw(g: Gate, h: State, w: rnnc.Param = normal()):
    return g * w


def drawn_in_the_body(g: Gate, h: State):
    return bernoulli(0.1) * h + g


def number_as_an_input(g: Gate, h: State, xi: Input = 0.1):
    return g * xi


def draw_that_is_not_called(g: Gate, h: State, xi: Input = normal):
    return g * xi


def draw_without_an_annotation(g: Gate, h: State, xi=bernoulli(0.2)):
    return g * xi


@pytest.mark.parametrize(
    ("function", "found", "write"),
    [
        (unknown_constant, "no constant `q`", "q: Constant = constant(0.1) in the signature"),
        (state_with_a_draw, "`h: State` with the default bernoulli(0.1)", "h: Input = bernoulli"),
        (param_with_a_draw, "`w: Param` with the default normal(0, 1)", "w: Input = normal(0, 1)"),
        (
            drawn_in_the_body,
            "bernoulli(p=0.1) in the body of a cell",
            "def drawn_in_the_body(…, *, noise: Input = bernoulli(0.1)), and noise there",
        ),
        (number_as_an_input, "`xi: Input` with the default 0.1", "xi: Input, and inputs="),
        (
            draw_that_is_not_called,
            "`xi: Input` with the default normal",
            "xi: Input = normal(mean=0, std=1)",
        ),
        (draw_without_an_annotation, "`xi` with no annotation", "xi: Input = bernoulli(0.2)"),
    ],
)
def test_wrong_cells_with_draws_are_refused_in_the_author_s_file(function, found, write):
    with pytest.raises(rnnc.CellError) as caught:
        rnnc.cell(function)
    assert "test_draws.py:" in caught.value.where
    assert found in caught.value.found
    assert caught.value.write.startswith(write)


def test_wrong_json_of_a_draw_is_refused():
    for old, new, found in (
        ('"arguments": ["p"]', '"arguments": ["p", 1]', "with 2 argument(s)"),
        ('"arguments": ["p"]', '"arguments": [7]', "bernoulli(7, per='sequence') for the input"),
        ('"kind": "bernoulli"', '"kind": "gamma"', "inputs[0].draw.kind"),
    ):
        text = noisy.to_json()
        assert old in text
        with pytest.raises(rnnc.CellError) as caught:
            rnnc.Cell.from_json(text.replace(old, new))
        assert found in caught.value.found
