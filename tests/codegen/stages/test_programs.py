"""The programs of stages: what each computes, leaves for later ones, and exchanges."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import (
    Gate,
    State,
    clip_gradient,
    gate,
    layer_norm,
    mean,
    sigmoid,
    softmax,
    tanh,
)
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.derive import derive
from rnnc.codegen.program import targets_of
from rnnc.codegen.render import render
from rnnc.codegen.stages.exchange import Product, Statistic


def names(program):
    return [str(output) for output in program.outputs]


def test_a_called_gate_divides_both_directions(staged_cells):
    found = derive(staged_cells.gru_reset_first)
    first, second = found.stages.forward
    assert first.lines() == ("left0 = sigmoid(r)", "n_argument = left0*h")
    assert found.stages.exchanged == ((Product("n", "n_argument", dense=True),),)
    assert "h_next = (1 - sigmoid_z)*tanh_n + sigmoid_z*h" in second.lines()
    gates, rest = found.stages.backward
    assert set(names(gates)) == {"d_z", "d_n"}
    assert found.stages.returned == ((Product("n", "d_n_back", dense=True),),)
    assert names(rest)[-1] == "d_h"
    assert found.saved == ("sigmoid_z", "sigmoid_r", "tanh_n", "n_argument")


def test_nothing_is_computed_twice_but_conditions(staged_cells):
    for cell, _ in staged_cells.TWINS.values():
        stages = derive(cell).stages
        for programs in (stages.forward, stages.backward):
            targets = [t for program in programs for t in targets_of(program.statements)]
            assert len(targets) == len(set(targets))


def test_a_value_is_left_by_the_stage_that_computes_it_first():
    """The softmax is part of the gate's argument, and then itself a value of the norm."""

    @rnnc.cell
    def shared(n: Gate, h: State):
        weights = softmax(h)
        return layer_norm((weights, n(sigmoid(weights))))[0]

    stages = derive(shared).stages
    assert [program.lines() for program in stages.forward[1:3]] == [
        ("left0 = exp(h - largest0)/total0", "n_argument = sigmoid(left0)"),
        ("moments_of = left0", "moments_of_ = n"),
    ]


def test_reductions_of_one_round_share_an_exchange():
    @rnnc.cell
    def both(g: Gate, f: Gate, h: State):
        return tanh(g - mean(g)) * sigmoid(f - mean(f)) + mean(tanh(h))

    (exchanged,) = derive(both).stages.exchanged
    assert [type(each) for each in exchanged] == [Statistic] * 3


def test_a_norm_does_not_wait_for_the_sums_of_one_behind_it(staged_cells):
    """What each unit adds to the sums of the gates is linear in the sums of c."""
    norm_lstm, _ = staged_cells.TWINS["norm_lstm"]
    plain, early = derive(norm_lstm).stages, derive(norm_lstm, early_sums=True).stages
    assert [len(each) for each in plain.returned] == [2, 2]
    (returned,) = early.returned
    assert len(returned) == len(early.sums) == 2 + 2 * (1 + 2)
    # The forward is the same, and so what any backward reads.
    assert (early.forward, early.saved_statistics) == (plain.forward, plain.saved_statistics)


def test_sums_wait_where_their_factors_would_be_many():
    """Three norms of the layer-normed LSTM would exchange 14 sums at once."""
    found = derive(rnnc.cells.layer_norm_lstm, early_sums=True)
    assert [len(each) for each in found.stages.returned] == [2, 4]


def test_a_sum_waits_for_a_product_and_for_what_is_not_linear():
    @rnnc.cell
    def product(g: Gate, n: Gate, h: State):
        return layer_norm(n(layer_norm(g)))

    @rnnc.cell
    def clipped(g: Gate, h: State):
        return layer_norm(clip_gradient(layer_norm(g), 1.0))

    for cell in (product, clipped):
        assert derive(cell, early_sums=True).stages == derive(cell).stages
    assert len(derive(clipped).stages.returned) == 2


def test_independent_products_share_an_exchange():
    @rnnc.cell
    def wide(
        a: Gate, b: Gate = gate(input=False), c: Gate = gate(input=False), h: State = rnnc.state()
    ):
        x = tanh(a)
        return b(x) * c(sigmoid(a) * h)

    assert [len(each) for each in derive(wide).stages.exchanged] == [2]


def test_a_value_that_is_multiplied_and_reduced_has_one_name():
    @rnnc.cell
    def shared(a: Gate, b: Gate = gate(input=False), h: State = rnnc.state()):
        x = tanh(a) * h
        return b(x) + mean(x)

    found = derive(shared).stages
    product, statistic = found.exchanged[0]
    assert (product.argument,) == statistic.arguments
    assert found.values.count(product.argument) == 1


def test_the_source_of_a_cell_without_stages_has_none_of_theirs():
    code = render(derive(rnnc.cells.lstm), CpuPlan()).code
    assert "stage" not in code.lower()


def test_the_source_says_what_units_exchange(staged_cells):
    code = render(derive(staged_cells.gru_reset_first), CpuPlan()).code
    assert "// n += R_n n_argument" in code
    assert "constexpr int kForwardStages = 2;" in code


@pytest.mark.parametrize("variant", ["walk", "scan"])
def test_kinds_without_stages_refuse_by_name(variant, staged_cells):
    given = staged_cells.gru_reset_first, rnnc.Shape(heads=1, head_dim=64), limits_of("H200")
    wanted = rf"`n\(sigmoid\(r\)\*h\)`, a product with a value(?s:.*)for {variant} kernels"
    with pytest.raises(rnnc.PlanError, match=wanted):
        rnnc.plan_for(*given, variant)
    with pytest.raises(rnnc.PlanError, match="for step kernels"):
        rnnc.plan_for(*given, features=64)
