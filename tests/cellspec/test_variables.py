"""Values have the names of the author's variables where they are shown, and nowhere else."""

from __future__ import annotations

import re

import pytest
import rnnc
from rnnc import Gate, Param, State, sigmoid, tanh, where, with_gradient
from rnnc.cellspec.printing.equations import equation_terms
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.codegen.derive import derive
from rnnc.runtime.cpu.compile import CppToolchain
from rnnc.runtime.store.compiled import compile_cell


@rnnc.cell
def spiking(g: Gate, s: State, v: State, beta: Param):
    potential = beta * v * (1 - s) + g
    fired = potential > 1
    near = sigmoid(4 * (potential - 1))
    spike = with_gradient(where(fired, 1, 0), of=near)
    return spike, potential - 0.5 * near * spike


def written_otherwise() -> rnnc.Cell:
    """The same cell with other variables, one of which is made in a helper."""

    def soft(x):
        inner = 4 * (x - 1)
        return sigmoid(inner)

    @rnnc.cell
    def spiking(g: Gate, s: State, v: State, beta: Param):
        u = beta * v * (1 - s) + g
        a, b = u > 1, soft(u)
        s = with_gradient(where(a, 1, 0), of=b)
        return s, u - 0.5 * b * s

    return spiking


def names(cell):
    return list(cell.variable_names.values())


def test_a_value_has_the_name_of_the_variable_that_it_is_assigned_to():
    assert names(spiking) == ["potential", "fired", "near", "spike"]
    assert names(written_otherwise()) == ["u", "a", "b"]  # `s` is declared


def test_programs_have_the_names_in_place_of_t0():
    assert str(derive(spiking).forward) == (
        "potential = beta*v*(1 - s) + g\n"
        "s_next = where((potential > 1), 1, 0)\n"
        "v_next = potential - 0.5*sigmoid(4*(potential - 1))*s_next"
    )
    assert "const real near_ = sigmoid(" in spiking.cpp().code


def test_json_has_the_names_and_reads_them():
    again = rnnc.Cell.from_json(spiking.to_json())
    assert again == spiking
    assert again.variable_names == spiking.variable_names
    assert '["near", "sigmoid(4*(potential - 1))"]' in spiking.to_json()
    assert again.to_json() == spiking.to_json()


def test_names_are_in_no_fingerprint_comparison_or_cache_key(monkeypatch, tmp_path):
    other = written_otherwise()
    assert other == spiking
    assert hash(other) == hash(spiking)
    assert other.fingerprint == spiking.fingerprint
    assert other.to_json() != spiking.to_json()
    assert derive(other) is derive(spiking)
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    for cell in (spiking, other):
        compile_cell(cell, CpuPlan("float64"), CppToolchain())
    assert len([*tmp_path.rglob("spiking*.so")]) == 1


def test_a_docstring_and_other_equations_still_differ():
    assert spiking.model_copy(update={"doc": "Another text."}) != spiking
    assert spiking.model_copy(update={"name": "other"}) != spiking
    assert spiking != "spiking"


def test_names_that_mean_something_else_are_left_out():
    @rnnc.cell
    def confusing(g: Gate, h: State):
        h = tanh(h * g) + 1  # declared
        x_g = h * h + g  # the input's part of the gate
        t3 = x_g * x_g - g  # as of temporaries
        d_h = t3 * t3 + g  # a gradient
        größe = d_h * d_h - g
        tanh_ = größe * größe + 2
        tanh_g = tanh(tanh_) * tanh_
        return tanh_g * tanh_g + tanh(g) * h

    assert names(confusing) == ["tanh_", "tanh_g"]
    texts = str(derive(confusing))
    assert texts.count(" tanh_g = ") <= 2  # the activation in the forward, or the variable


def test_a_variable_that_is_assigned_again_is_numbered():
    @rnnc.cell
    def looping(g: Gate, h: State):
        x, t, x1 = g * h, g + h, g - h
        for _ in range(2):
            x, t, x1 = tanh(x), t * t, x1 * 2
        return x * x + t + x1

    assert names(looping) == ["x", "t", "x1", "x2", "t_2", "x1_2", "x3", "t_3", "x1_3"]


def test_a_function_without_source_has_names_too():
    scope = {"rnnc": rnnc, **{n: getattr(rnnc, n) for n in ("Gate", "State", "tanh")}}
    exec("def typed(g: Gate, h: State):\n    m = tanh(g + h)\n    return m * m + g", scope)
    assert names(rnnc.cell(scope["typed"])) == ["m"]


def long_cell(terms: int) -> rnnc.Cell:
    @rnnc.cell
    def long(gate_one: Gate, hidden: State, other: State):
        before = tanh(gate_one)
        mixed = before * hidden + gate_one * other - 0.123456789 * gate_one
        total = mixed
        for number in range(terms):
            total = total + sigmoid(mixed + number * hidden) * tanh(gate_one - number)
        return total / (1 + total), other

    return long


@pytest.mark.parametrize("depth", [1, 3])
def test_lines_of_a_loop_are_cut_where_it_carries_many_values(depth):
    @rnnc.cell
    def wide(g: Gate, h: State):
        def step(*values, inside=1):
            if inside < depth:
                values = rnnc.repeat(2, lambda *v: step(*v, inside=inside + 1), *values)
            turned = (*values[1:], values[0])
            return tuple(tanh(v + w * g * sum(values)) for v, w in zip(values, turned, strict=True))

        return sum(rnnc.repeat(3, step, *(h * k + g for k in range(30))))

    lines = [*str(wide).splitlines(), *str(derive(wide)).splitlines()]
    assert max(map(len, lines)) <= 160
    assert any(line.startswith("repeat 3 times, from t") for line in wide.equations())
    (end,) = [n for n, line in enumerate(lines) if "wide: pointwise forward" in line]
    together = " ".join(line.strip() for line in lines[:end])
    pairs = re.findall(r"((?:t\d+, ){29}t\d+) = ((?:t\d+, ){29}t\d+)", together)
    assert len(pairs) == depth
    for names, new in pairs:
        assert names != new
    assert len(equation_terms(wide)) == len(wide.equations())


def test_no_printed_line_is_longer_than_160_letters():
    for terms in (0, 1, 2, 3, 5, 8, 20, 100):
        cell = long_cell(terms)
        lines = [*cell.equations(), *cell.backward_equations(), *str(derive(cell)).splitlines()]
        assert max(map(len, lines)) <= 160
    (line,) = [e for e in long_cell(3).equations() if e.startswith("mixed = ")]
    assert line == "mixed = before*hidden + gate_one*other - 0.123456789*gate_one"


def test_short_equations_are_written_out():
    assert len(spiking.equations()) == 3
    assert all(len(rnnc.cells.get(n).equations()[-1]) <= 160 for n in rnnc.cells.names())
