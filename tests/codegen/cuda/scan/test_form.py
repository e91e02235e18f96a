"""What a scan carries from step to step, the matrix of a step, and what no scan computes."""

from __future__ import annotations

import math

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, clip_gradient, gate, repeat, sigmoid, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_of_kind
from rnnc.codegen.cuda.scan.form import NoScanError, form_of
from rnnc.codegen.cuda.scan.functions import step_functions
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.derive import derive
from rnnc.codegen.shape import DIRECTIONS, PlanError, Shape
from rnnc.runtime.cuda.nvrtc import built

from ....walk_calls import (
    cascaded,
    cells_without_r,
    clipped_between,
    gated,
    highest_of_another,
    over_maxima,
    scanned,
    two_sources,
)

H200, SHAPE = limits_of("H200"), Shape(1, 64)
BOTH = [name for name in cells_without_r() if scanned(rnnc.cells.get(name), "forward")]
FUNCTIONS = {
    name: getattr(math, name) for name in ("exp", "expm1", "sin", "cos", "sqrt", "tanh")
} | {
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "logsigmoid": lambda x: -math.log1p(math.exp(-x)),
    "maximum": max,
    "stop_gradient": lambda x: x,
}


def entries_of(form, values):
    """What the program of a form computes, by name, from its text."""
    names = dict(values)
    for line in form.coefficients.lines():
        exec(line, FUNCTIONS, names)
    return names


def matrix_of(form, values):
    """The matrix of a step."""
    names, size = entries_of(form, values), range(len(form.linear))
    return torch.tensor(
        [[float(names.get(f"a_{i}_{k}", 0)) for k in size] for i in size], dtype=torch.float64
    )


@pytest.mark.parametrize("name", BOTH)
def test_the_matrix_is_the_difference_of_a_step(name):
    """Two steps from other states, with the same gates and maxima: x' - y' = A (x - y)."""
    cell = rnnc.cells.get(name)
    form = form_of(cell, "forward")
    rest = {"dtype": torch.float64}
    wx = torch.randn(1, 1, 1, 1, len(cell.input_gates), **rest)
    params = {p.name: p.init + 0.1 * torch.randn(1, 1, **rest) for p in cell.params}
    bias = torch.randn(len(cell.bias_gates), 1, 1, **rest) if cell.bias_gates else None
    names = [state.name for state in cell.states]
    first, second = ([torch.randn(1, 1, 1, **rest) for _ in names] for _ in range(2))
    for state in form.maxima:
        second[names.index(state)] = first[names.index(state)]
    inputs = {i.name: torch.randn(1, 1, 1, 1, **rest) for i in cell.inputs}
    given_with = {"params": params or None, "inputs": inputs or None, "backend": "reference"}
    after = [rnnc.scan(cell, wx, None, bias, states, **given_with)[1] for states in (first, second)]
    given = {g: wx[0, 0, 0, 0, i].item() for i, g in enumerate(cell.input_gates)}
    for i, g in enumerate(cell.bias_gates):
        given[g] += bias[i].item()
    given |= {n: p.item() for n, p in params.items()} | {c.name: c.value for c in cell.constants}
    given |= {state: first[names.index(state)].item() for state in form.maxima}
    carried = [names.index(state) for state in form.linear]
    apart = torch.stack([(first[i] - second[i]).flatten() for i in carried])
    wanted = torch.stack([(after[0][i] - after[1][i]).flatten() for i in carried])
    assert torch.allclose(matrix_of(form, given) @ apart, wanted, rtol=1e-12, atol=1e-14)


def test_maxima_come_first_and_coefficients_may_read_them():
    form = form_of(over_maxima, "forward")
    assert (form.maxima, form.linear) == (("m", "k"), ("c", "n"))
    values = {"f": -2, "decay": 1.5, "slope": 3, "m": 3, "u_i": 0.25, "abs": abs}
    found = entries_of(form, values)
    assert (found["shift_0"], found["shift_1"]) == (-2, 0)
    assert (found["a_0_0"], found["a_1_1"]) == (math.exp(-0.5) + 0.75, 0.9)
    assert form_of(over_maxima, "backward").maxima == ()
    found = step_functions(derive(over_maxima), "forward", [])
    assert found.matrix is not None
    assert "m" in found.matrix.read
    assert found.matrix.results == ("a_0_0",)
    assert [found.early.results[i] for i in found.shifts] == ["shift_0", "shift_1"]
    assert "shift_0_ = -_early_0_;" in found.early.text
    fixed = found.early.results.index("a_1_1")
    assert found.rows == ("entry[0]*column[j][0]", f"early[{fixed}]*column[j][1]")


def test_a_diagonal_weight_is_in_the_matrix():
    form = form_of(gated, "forward")
    assert form.carried == ("c",)
    assert form.weights == ("u_n", "u_o")
    assert str(form.coefficients) == "a_0_0 = decay*sigmoid(f) + u_n*slope"
    assert form_of(gated, "backward").carried == ("c",)


def test_sums_of_values_of_other_parts_are_entries_of_one_matrix():
    """Also of a state that reads no past of its own, where another one reads its old value."""
    form = form_of(cascaded, "forward")
    assert form.carried == ("h", "late", "c")
    assert set(form.coefficients.lines()) == {
        "a_0_0 = 0.9",
        "a_1_0 = 0.9*0.5",
        "a_2_1 = 1",
        "a_2_2 = sigmoid(f)",
    }


def test_weights_of_a_gate_with_several_sources_have_names_of_their_own():
    form = form_of(two_sources, "forward")
    assert form.weights == ("_u_g_0", "_u_g_1", "u_o")
    assert "a_0_1 = _u_g_1*0.5" in form.coefficients.lines()


def test_the_backward_carries_every_gradient_that_reaches_the_past():
    cells = {name: rnnc.cells.get(name) for name in cells_without_r()}
    carried = {name: form_of(cell, "backward").carried for name, cell in cells.items()}
    assert carried["sru"] == carried["qrnn"] == ("c",)
    assert carried["unicornn"] == ("y", "z")
    assert carried["slstm_without_r"] == ("c", "n", "m")


def test_what_waits_for_nothing_is_computed_once():
    """The coefficient that the equations have is not computed again; nor is what stores want."""
    found = step_functions(derive(rnnc.cells.hgrn), "forward", ["sigmoid"])
    assert found.early.results == ("_early_0", "kept", "_early_1")
    assert found.rows == ("early[1]*column[j][0]",)
    assert "h_next = kept_*h + _early_1_;" in found.late.text
    backward = step_functions(derive(rnnc.cells.hgrn), "backward", [])
    assert backward.early.results == ("kept",)
    assert backward.rows == ()


@rnnc.cell
def crossed(c: State, m: State, *, f: Gate = gate(recurrent=False)):
    """Two parts, of which one reads the old value of the other in its coefficient."""
    return sigmoid(f + m) * c + f, sigmoid(f) * m + f


@rnnc.cell
def forgetful(h: State, *, f: Gate = gate(recurrent=False)):
    """No state reads its own past."""
    return tanh(f)


@rnnc.cell
def looping(h: State, *, f: Gate = gate(recurrent=False)):
    """A coefficient that a loop computes."""
    kept = repeat(3, lambda k: sigmoid(k + f), f)
    return kept * h + f


@rnnc.cell
def clipping(h: State, *, f: Gate = gate(recurrent=False)):
    """A backward that is not linear."""
    return sigmoid(f) * clip_gradient(h, 1) + f


@rnnc.cell
def ambiguous(h: State, *, f: Gate = gate(recurrent="diagonal"), u_f: Param):
    """A param with the name of a weight."""
    return f + u_f


@pytest.mark.parametrize(
    ("cell", "direction", "reason"),
    [
        (rnnc.cells.brc, "forward", "`sigmoid(c)` is a function of h"),
        (rnnc.cells.lstm, "forward", "R_i, R_f, R_z and R_o multiply h"),
        (rnnc.cells.lstm, "backward", "the same matrices, transposed"),
        (
            crossed,
            "forward",
            "c reads the old value of m, in another part: `sigmoid(f + m)` is a function of m",
        ),
        (highest_of_another, "forward", "the maximum m reads h, which is carried too"),
        (forgetful, "forward", "no state reads its own past"),
        (forgetful, "backward", "no state reads its own past"),
        (looping, "forward", "a loop computes the coefficients of a step"),
        (
            clipped_between,
            "backward",
            "`clip_gradient(h, 0.3)` clips a cotangent on its way from part to part",
        ),
        (clipping, "backward", "`clip_gradient(h, 1)` clips a cotangent on its way through time"),
        (ambiguous, "forward", "u_f is also the name of a diagonal weight"),
    ],
)
def test_what_is_no_scan_is_refused_with_the_reason(cell, direction, reason):
    with pytest.raises(NoScanError) as broken:
        form_of(cell, direction)
    assert str(broken.value) == reason


def test_the_error_of_a_plan_names_reason_and_direction():
    with pytest.raises(PlanError) as refused:
        plan_for(rnnc.cells.indrnn, SHAPE, H200, "scan")
    assert str(refused.value) == (
        "scan plan of indrnn for 1 x 64, batch 16, 1024 steps, bfloat16, forward\n"
        "  found:  `relu(g)` is a function of h\n"
        "  wanted: a step that is affine in what it carries on, in each direction\n"
        '  write:  variant="auto"'
    )


def test_auto_may_join_a_walk_and_a_scan():
    for cell in (rnnc.cells.sru, crossed, looping):
        for pair in plans_of_kind("scan", cell, SHAPE, H200, for_auto=True):
            assert [getattr(pair, d).kind for d in DIRECTIONS] == ["walk", "scan"]
    with pytest.raises(PlanError, match="clips a cotangent"):
        plans_of_kind("scan", clipping, SHAPE, H200, for_auto=True)


@pytest.mark.usefixtures("compiler")
def test_a_coefficient_is_a_value_without_what_its_gradient_needs():
    @rnnc.cell
    def mine(h: State, *, z: Gate = gate(recurrent=False), x: Gate = gate(recurrent=False)):
        return tanh(rnnc.with_gradient(sigmoid(z), of=rnnc.sign(x))) * h + x

    assert "with_gradient" not in str(form_of(mine, "forward").coefficients)
    plan = plan_for(mine, Shape(1, 16, 4, 4096, "float32"), H200, "scan")
    for unit in cuda_source(mine, plan).units:
        assert built(unit, H200.arch, "float32")
