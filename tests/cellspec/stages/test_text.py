"""Called gates and reductions as equations, LaTeX, JSON and pickles."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import rnnc
from rnnc import Gate, Param, State, gate, layer_norm, rms_norm, tanh
from rnnc.cellspec.expression.node import ordered
from rnnc.cellspec.printing.equations import equation_lines, equation_terms


@rnnc.cell
def several(g: Gate, h: State, c: State, n: Gate = gate(recurrent="diagonal")):
    """Variables with the names of functions and of an option."""
    total = rnnc.total(h)
    mean = rnnc.mean(g) * total
    eps = mean * 3
    a, b = layer_norm((eps, n(h * mean)), eps=0.5)
    return a + b + rms_norm(eps), a * eps


def test_equations():
    assert several.equations() == (
        "g = x_g + R_g h + b_g",
        "n(y) = x_n + u_n * y + b_n",
        "t0 = layer_norm((mean(g)*total(h)*3, n(h*(mean(g)*total(h)))), eps=0.5)",
        "c' = t0[0]*(mean(g)*total(h)*3)",
        "h' = t0[0] + t0[1] + rms_norm(mean(g)*total(h)*3)",
    )


def test_latex():
    product = r"\operatorname{mean}\left(g_t\right) \operatorname{total}\left(h_{t-1}\right)"
    assert several.latex().splitlines()[1:-1] == [
        r"g_t &= W_{g} x_t + R_{g} h_{t-1} + b_{g} \\",
        r"n_t(y) &= W_{n} x_t + u_{n} \odot y + b_{n} \\",
        rf"v_{{0}} &= \operatorname{{LN}}\left({product} \cdot 3,"
        rf" n_t\left(h_{{t-1}} \left({product}\right)\right)\right) \\",
        rf"c_t &= \left(v_{{0}}\right)_{{1}} \left({product} \cdot 3\right) \\",
        r"h_t &= \left(v_{0}\right)_{1} + \left(v_{0}\right)_{2}"
        rf" + \operatorname{{RMS}}\left({product} \cdot 3\right)",
    ]


def test_a_member_of_a_named_value_has_one_index():
    @rnnc.cell
    def long(g: Gate, h: State, c: State):
        x = h
        for _ in range(30):
            a, b = layer_norm((x, tanh(x) + g))
            x = a * b
        return x, c

    assert r"\left(v_{0}\right)_{1}" in long.latex()
    assert "}_{" not in long.latex().replace(r"\right)_{", "").replace("}_{t-1}", "")
    assert "t0 = layer_norm((h, tanh(h) + g))" in long.equations()
    assert rnnc.Cell.from_json(long.to_json()) == long


@pytest.mark.parametrize("name", ["gru", "norm_lstm", "deep"])
def test_json_and_pickles_read_back_the_same_cell(name, staged_cells):
    cell, _ = staged_cells.TWINS[name]
    again = rnnc.Cell.from_json(cell.to_json())
    assert again == cell
    assert again.updates == cell.updates
    assert again.called == cell.called
    assert again.fingerprint == cell.fingerprint
    assert again.equations() == cell.equations()
    assert pickle.loads(pickle.dumps(cell)) == copy.deepcopy(cell) == cell


def test_variables_keep_their_names_in_json():
    again = rnnc.Cell.from_json(several.to_json())
    assert again == several
    assert again.equations() == several.equations()
    shared = json.loads(several.to_json())["shared"]
    assert [name for name, _ in shared] == ["total", "mean", "eps", "t0", "a", "b"]


def test_the_fingerprint_knows_eps_and_the_function():
    def of(function):
        def cell(g: Gate, h: State):
            return tanh(function(g) + h)

        return rnnc.cell(cell).fingerprint

    found = {
        *(of(f) for f in (rnnc.mean, rnnc.total, rnnc.largest, rnnc.softmax, layer_norm, rms_norm)),
        of(lambda x: layer_norm(x, eps=1e-4)),
    }
    assert len(found) == 7
    assert of(lambda x: layer_norm(x, eps=1e-5)) == of(layer_norm)


def test_each_line_has_its_terms():
    lines, terms = equation_lines(several), equation_terms(several)
    assert len(lines) == len(terms)
    shown = {node for line in terms for node in line}
    nodes = ordered(several.updates)
    assert {node for node in nodes if node.op in ("gate", "units")} <= shown


def test_a_gain_is_a_product_of_the_norm():
    def written(g: Gate, h: State, w: Param, b: Param):
        return layer_norm(g, w, b) + h

    def spelled(g: Gate, h: State, w: Param, b: Param):
        return layer_norm(g) * w + b + h

    assert rnnc.cell(written).updates == rnnc.cell(spelled).updates


JSON = json.loads(rnnc.cells.elman.to_json())


def read(**fields) -> rnnc.Cell:
    return rnnc.Cell.from_json(json.dumps({**JSON, **fields}))


@pytest.mark.parametrize(
    ("shared", "cycle"),
    [
        ([["t0", "tanh(t0)"]], "t0 -> t0"),
        ([["t0", "tanh(t1)"], ["t1", "t0*h"]], "t0 -> t1 -> t0"),
        ([["t0", "t2"], ["t1", "t0"], ["t2", "h + t1"]], "t0 -> t2 -> t1 -> t0"),
        (
            [
                {"repeat": 3, "carried": ["t0"], "from": ["t1"], "next": ["t0 + g"]},
                ["t1", "mean(t0)"],
            ],
            "t0 -> t1 -> t0",
        ),
        (
            [
                {
                    "repeat": 3,
                    "carried": ["t0"],
                    "from": ["h"],
                    "next": ["t0 + t1"],
                    "shared": [["t1", "t2"], ["t2", "t1"]],
                }
            ],
            "t1 -> t2 -> t1",
        ),
    ],
)
def test_a_cycle_of_shared_values_is_listed(shared, cycle):
    with pytest.raises(rnnc.CellError) as caught:
        read(shared=shared, updates=["t0 + g"])
    assert caught.value.found == f"shared values that use each other: {cycle}"


def test_a_later_shared_value_is_named_and_the_advice_works():
    shared = [["t0", "tanh(t1)"], ["t1", "g*h"]]
    with pytest.raises(rnnc.CellError, match="`t0`, which uses the later `t1`") as caught:
        read(shared=shared, updates=["t0"])
    assert caught.value.write == "the entry of `t1` before that of `t0`"
    assert read(shared=shared[::-1], updates=["t0"]).equations()[-1] == "h' = tanh(g*h)"


def test_a_name_that_is_declared_is_no_later_value():
    assert read(shared=[["h", "2*h"]], updates=["h + g"]).equations()[-1] == "h' = 2*h + g"


@pytest.mark.parametrize(
    ("update", "found"),
    [
        ("system(g)", "the unknown function `system`"),
        ("h(g)", "the unknown function `h`"),
        ("g(2*h) + g(3*h)", "the gate `g` called twice"),
        ("g(2*h) + g", "the gate `g` used as a value and called"),
        ("g(1.5)", "g(1.5)"),
        ("mean(2.0) + g", "mean(2)"),
        ("layer_norm((g, 2.0))[1]", "layer_norm((g, 2))"),
        ("layer_norm(g, eps=-1)", "at -1"),
        ("layer_norm((g, h))", "layer_norm((g, h)) as the new value of `h`"),
        ("layer_norm((g, h)) + 1", "several values in the place of one"),
        ("layer_norm((g, h))[2]", "at layer_norm((g, h))[2]"),
        ("layer_norm(g)[0]", "at layer_norm(g)[0]"),
        ("layer_norm(g, eps=h)", "at h"),
        ("layer_norm(g, gain=h)", "at h"),
        ("mean((g, h))", "at (g, h)"),
        ("mean(g, eps=1)", "at g"),
        ("mean(g > 0)", "the condition `(g > 0)` in the place of a number"),
    ],
)
def test_wrong_texts_in_json(update, found):
    with pytest.raises(rnnc.CellError) as caught:
        read(updates=[update])
    assert found in caught.value.found


def test_a_stage_in_a_loop_of_json_is_refused():
    loop = {"repeat": 3, "carried": ["t0"], "from": ["h"], "next": ["mean(t0) + g"]}
    with pytest.raises(rnnc.CellError, match="inside the step of repeat"):
        read(shared=[loop], updates=["t0"])
