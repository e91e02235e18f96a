"""`rnnc check` sees where each function of the table overflows, and that the others do not."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import Gate, State
from rnnc.cellspec.expression.node import symbol
from rnnc.cellspec.functions import TABLE
from rnnc.verify.extremes import extremes

#: Finite in float64 at some point, and not in float32.
GROW = {"exp", "exp2", "expm1", "sinh", "cosh", "pow"}
#: Of infinite value, or of none, in float64 too.
EDGES = {"log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal", "fmod", "remainder"}


@pytest.mark.slow
def test_each_function_by_itself():
    g, k = symbol("g"), symbol("k")
    updates = {}
    for name, row in TABLE.items():
        two = (g, k, *map(float, row.defaults), 0.25)[: len(row.arguments)]
        if name == "pow":
            two = (rnnc.abs.of(g), rnnc.tanh.of(k) * 10)
        if name != "where":
            updates[f"y_{name}"] = row.of(*two)
    cell = rnnc.Cell(
        name="table",
        gates=(Gate(name="g"), Gate(name="k")),
        states=tuple(State(name=name) for name in updates),
        updates=tuple(updates.values()),
    )
    _, overflows, undefined = extremes(cell)
    found = {o.name.removeprefix("y_") for o in overflows if o.name.startswith("y_")}
    nowhere = {name.removeprefix("y_") for name in undefined if name.startswith("y_")}
    assert found == GROW
    assert nowhere - GROW == EDGES
