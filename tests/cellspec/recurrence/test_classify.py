"""The kind of a recurrence, also of cells that look like another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import rnnc
from rnnc import (
    Gate,
    Input,
    Param,
    State,
    clip_gradient,
    cos,
    gate,
    lerp,
    maximum,
    minimum,
    sigmoid,
    sign,
    sin,
    stop_gradient,
    tanh,
    where,
    with_gradient,
)
from rnnc.cellspec.recurrence.classify import Part, Recurrence

Update = Callable[..., Any]


def cell_of(update: Update) -> rnnc.Cell:
    """A cell without matrices: two gates, a param, an input, and an output that reads all four."""

    @rnnc.cell
    def drawn(
        h: State,
        out: State,
        w: Param,
        x: Input,
        *,
        a: Gate = gate(recurrent=False),
        b: Gate = gate(recurrent=False),
    ):
        return update(h, a, b, w, x), a - b + w * x

    return drawn


def part_of_h(recurrence: Recurrence) -> Part:
    (part,) = (part for part in recurrence.parts if part.states == ("h",))
    return part


def test_the_library_has_cells_of_all_kinds():
    kinds = {name: rnnc.cells.get(name).recurrence.kind for name in rnnc.cells.names()}
    affine = {name for name, kind in kinds.items() if kind == "affine"}
    diagonal = {name for name, kind in kinds.items() if kind == "diagonal"}
    assert affine == {
        *("damped_ema", "ema", "gilr", "hgrn", "lru", "mingru", "mingru_highway", "minlstm"),
        *("qrnn", "rg_lru", "s5", "slstm_without_r"),
    }
    assert diagonal == {"brc", "indrnn", "lif", "lif_to_zero", "sru", "unicornn"}
    dense = {name for name in kinds if rnnc.cells.get(name).dense_pairs}
    assert dense == set(kinds) - affine - diagonal


@pytest.mark.parametrize(
    ("update", "coefficient", "offset"),
    [
        (lambda h, a, b, w, x: sigmoid(a) * h + tanh(b), "sigmoid(a)", "tanh(b)"),
        (lambda h, a, b, w, x: b + h, "1", "b"),
        (lambda h, a, b, w, x: b - h, "-1", "b"),
        (lambda h, a, b, w, x: -(w * h) + a + b, "-w", "a + b"),
        (lambda h, a, b, w, x: h * x + b * (h - a), "x + b", "-a*b"),
        (lambda h, a, b, w, x: (h + a) / w, "1/w", "a/w"),
        (lambda h, a, b, w, x: h - a * h, "1 - a", "None"),
        (lambda h, a, b, w, x: (h - h) + b, "1 - 1", "b"),
        (lambda h, a, b, w, x: sign(a) * stop_gradient(h), "sign(a)", "None"),
        (lambda h, a, b, w, x: clip_gradient(w * h, 1) + a + b, "w", "a + b"),
        (
            lambda h, a, b, w, x: where(a > b, w * h, x),
            "where((a > b), w, 0)",
            "where((a > b), 0, x)",
        ),
        (lambda h, a, b, w, x: with_gradient(w * h + a + b, of=tanh(h)), "w", "a + b"),
        (lambda h, a, b, w, x: rnnc.repeat(3, lambda v: tanh(v + b), a) * h, "t", "None"),
    ],
    ids=range(13),
)
def test_sums_of_a_state_times_a_coefficient_are_affine(update, coefficient, offset):
    recurrence = cell_of(update).recurrence
    assert recurrence.kind == "affine"
    part = part_of_h(recurrence)
    if coefficient != "t":  # a loop has no text of its own
        assert str(part.matrix[0][0]) == coefficient
    assert str(part.offsets[0]) == offset


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (lambda h, a, b, w, x: tanh(h) + a + b, "`tanh(h)` is a function of h"),
        (lambda h, a, b, w, x: h * h - h * h + a * h, "`h*h` is a product of two values"),
        (lambda h, a, b, w, x: (w + h) * (b - h), "`(w + h)*(b - h)` is a product"),
        (lambda h, a, b, w, x: a / h + b, "`a/h` divides by a value that reads h"),
        (lambda h, a, b, w, x: w * h**2, "`h**2` is a power of h"),
        (lambda h, a, b, w, x: where(h > 0, a * h, b * h), "the condition `(h > 0)` reads h"),
        (lambda h, a, b, w, x: sign(h) * a, "`sign(h)` is a function of h"),
        (lambda h, a, b, w, x: lerp(h, b, sigmoid(a)), "`lerp(h, b, sigmoid(a))` is a function"),
        (lambda h, a, b, w, x: minimum(h + a, b), "`minimum(h + a, b)` is a function of h"),
        (lambda h, a, b, w, x: w * maximum(h + a, b), "`maximum(h + a, b)` is a function of h"),
        (lambda h, a, b, w, x: maximum(w * h, b), "`maximum(w*h, b)` is a function of h"),
        (lambda h, a, b, w, x: rnnc.repeat(2, lambda v: w * v + a, h), "a loop reads h"),
        (lambda h, a, b, w, x: with_gradient(tanh(h), of=w * h), "`tanh(h)` is a function of h"),
    ],
    ids=range(13),
)
def test_what_breaks_a_sum_is_named(update, reason):
    recurrence = cell_of(update).recurrence
    assert recurrence.kind == "diagonal"
    assert recurrence.reason.startswith(reason)


@pytest.mark.parametrize(
    ("update", "shift", "bound"),
    [
        (lambda h, a, b, w, x: maximum(a + h, b), "a", "b"),
        (lambda h, a, b, w, x: maximum(b, h - a) + w, "-a + w", "b + w"),
        (
            lambda h, a, b, w, x: maximum(maximum(h, a), maximum(h + w, stop_gradient(b))),
            "maximum(0, w)",
            "maximum(a, stop_gradient(b))",
        ),
    ],
    ids=range(3),
)
def test_a_maximum_alone_is_affine_in_its_own_way(update, shift, bound):
    recurrence = cell_of(update).recurrence
    assert recurrence.kind == "affine"
    part = part_of_h(recurrence)
    assert part.matrix == ()
    assert (str(part.maximum.shift), str(part.maximum.bound)) == (shift, bound)


def test_a_value_that_no_old_state_enters_is_an_output():
    recurrence = cell_of(lambda h, a, b, w, x: tanh(a + b)).recurrence
    assert recurrence.kind == "affine"
    assert [part.kind for part in recurrence.parts] == ["output", "output"]


def test_a_complex_pair_is_a_matrix_of_two():
    @rnnc.cell
    def rotating(re: State, im: State, angle: Param, *, x: Gate = gate(recurrent=False)):
        return cos(angle) * re - sin(angle) * im + x, sin(angle) * re + cos(angle) * im

    recurrence = rotating.recurrence
    assert recurrence.kind == "affine"
    assert [part.states for part in recurrence.parts] == [("re", "im")]
    matrix = [[str(entry) for entry in row] for row in recurrence.parts[0].matrix]
    assert matrix == [["cos(angle)", "-sin(angle)"], ["sin(angle)", "cos(angle)"]]


def test_weights_per_unit_are_coefficients():
    @rnnc.cell
    def weighted(h: State, c: State, *, g: Gate = gate(recurrent="diagonal", source=("h", "c"))):
        return 0.5 * g + c, g

    (part,) = weighted.recurrence.parts
    assert [[str(entry) for entry in row] for row in part.matrix] == [
        ["u_g,h*0.5", "u_g,c*0.5 + 1"],
        ["u_g,h", "u_g,c"],
    ]
    assert [str(offset) for offset in part.offsets] == ["g*0.5", "g"]


def test_parts_come_after_those_that_they_read():
    @rnnc.cell
    def chained(
        out: State,
        second: State,
        m: State,
        first: State,
        *,
        a: Gate = gate(recurrent=False),
        b: Gate = gate(recurrent=False),
    ):
        new_first = sigmoid(a) * first + b
        new_m = maximum(m + a, first)
        new_second = tanh(first) * second + new_m
        return tanh(new_second), new_second, new_m, new_first

    parts = chained.recurrence.parts
    assert [p.states for p in parts] == [("first",), ("m",), ("second",), ("out",)]
    assert [p.kind for p in parts] == ["affine", "affine", "affine", "output"]
    assert chained.recurrence.kind == "affine"


def test_the_hardest_part_gives_the_kind():
    @rnnc.cell
    def mixed(h: State, c: State, *, a: Gate = gate(recurrent=False)):
        return sigmoid(a) * h, tanh(c + h)

    recurrence = mixed.recurrence
    assert [p.kind for p in recurrence.parts] == ["affine", "diagonal"]
    assert (recurrence.kind, recurrence.reason) == ("diagonal", "`tanh(c + h)` is a function of c")


@pytest.mark.parametrize(("count", "kind"), [(4, "affine"), (5, "diagonal")])
def test_at_most_four_states_are_coupled(count, kind):
    def ring(names: tuple[str, ...]) -> rnnc.Cell:
        source = (
            f"def ring({', '.join(f'{n}: State' for n in names)}, *,"
            f" a: Gate = gate(recurrent=False)):\n"
            f"    return a*{names[-1]}, {', '.join(names[:-1])}\n"
        )
        scope: dict[str, Any] = {"State": State, "Gate": Gate, "gate": gate}
        exec(source, scope)
        return rnnc.cell(scope["ring"])

    recurrence = ring(tuple("hcnms"[:count])).recurrence
    assert (recurrence.kind, recurrence.adjoint) == (kind, kind)


def test_the_guard_of_slstm_is_named():
    """Without matrices its stabiliser is a maximum but for the test of the normaliser."""

    def slstm(guarded: bool) -> rnnc.Cell:
        @rnnc.cell
        def slstm(
            m: State,
            n: State,
            *,
            i: Gate = gate(recurrent=False),
            f: Gate = gate(recurrent=False),
        ):
            larger = maximum(i, f + m)
            new_m = where(n == 0, i, larger) if guarded else larger
            return new_m, tanh(f + m - new_m) * n + tanh(i - new_m)

        return slstm

    assert slstm(guarded=False).recurrence.kind == "affine"
    recurrence = slstm(guarded=True).recurrence
    assert (recurrence.kind, recurrence.reason) == ("diagonal", "the condition `(n == 0)` reads n")


def test_a_matrix_makes_a_cell_dense():
    recurrence = rnnc.cells.cornn.recurrence
    assert (recurrence.kind, recurrence.adjoint, recurrence.parts) == ("dense", "dense", ())
    assert str(recurrence) == "dense: R_g multiplies y and z"
