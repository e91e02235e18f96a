"""Random expressions: the generated C++ against the reference, in float64."""

from __future__ import annotations

import random

import pytest
import rnnc
import torch
from rnnc.cellspec.declare import Constant, Gate, Param, State
from rnnc.cellspec.expression.text import from_text
from rnnc.cellspec.functions import TABLE

MODERATE = ("exp2", "expm1", "sinh", "cosh", "tan")
NAMES = ["g", "k", "h", "c", "w", "alpha", "0.3", "1.7"]


def expression(chooser: random.Random, depth: int) -> str:
    """A text of the language; arguments are held where functions and slopes are moderate."""
    if depth == 0 or chooser.random() < 0.15:
        return chooser.choice(NAMES)
    a, b, c = (expression(chooser, depth - 1) for _ in range(3))
    name = chooser.choice(["+", "-", "*", "/", "**", *TABLE])
    if name == "where":
        return f"where({a} {chooser.choice(['<', '<=', '>', '>='])} {b}, {c}, g)"
    if name in TABLE:
        function = TABLE[name]
        positive = function.domain[0] > -2 or name in ("reciprocal", "pow")
        first = f"(tanh({a}) + 1.5)" if positive else a
        if name in ("exp", "elu", "sin", "cos", "square", *MODERATE):
            first = f"tanh({a})"
        if name in ("maximum", "minimum", "atan2", "with_gradient"):
            return f"{name}({a}, {b})"
        if name in ("pow", "remainder", "fmod"):
            return f"{name}({first}, tanh({b}) + 1.5)"
        if name == "lerp":
            return f"lerp({a}, {b}, tanh({c}))"
        rest = {"clip": "-0.75, 0.5", "clip_gradient": "0.5"}.get(
            name, ", ".join(map(str, function.defaults))
        )
        return f"{name}({first}, {rest})" if rest else f"{name}({first})"
    if name == "/":
        return f"({a}) / (1 + square({b}))"
    if name == "**":
        return f"tanh({a}) ** {chooser.choice([2, 3, 4])}"
    return f"({a}) {name} ({b})" if name != "*" else f"({a}) * tanh({b})"


@pytest.mark.parametrize(
    ("seed", "compiled"),
    [
        *((seed, "quick") for seed in range(2)),
        pytest.param(2, "quick", marks=pytest.mark.slow),
        *(pytest.param(seed, "shipped", marks=pytest.mark.slow) for seed in range(12)),
    ],
    indirect=["compiled"],
)
def test_many_random_states_in_one_kernel(seed, compiled, inputs_for):
    """Twelve expressions a kernel, so that one compilation tests them all."""
    chooser = random.Random(seed)
    updates = []
    while len(updates) < 12:
        update = from_text(f"{expression(chooser, 4)} + 0.01*{len(updates)}*g*w*alpha*k*c*h")
        if update not in updates and not update.is_number:
            updates.append(update)
    states = ["h", "c", *(f"s{i}" for i in range(10))]
    updates[0] = updates[0] + from_text("0.1*tanh(g*w + k*alpha)")
    cell = rnnc.Cell(
        name=f"random_{seed}",
        gates=(Gate(name="g", source=("h", "c")), Gate(name="k", recurrent="diagonal")),
        states=tuple(State(name=s) for s in states),
        params=(Param(name="w"),),
        constants=(Constant(name="alpha", value=0.3),),
        # Bounded, so that errors do not grow from step to step.
        updates=tuple(TABLE["tanh"].of(u) for u in updates),
    )
    inputs = inputs_for(cell, 3, 3, 2, 5)
    wanted, got = inputs.scan(cell, "reference"), inputs.scan(cell, "cpu")
    seeds = {k: torch.randn_like(v) for k, v in wanted.items()}
    flat = inputs.named()
    for key in wanted:
        torch.testing.assert_close(got[key], wanted[key], rtol=1e-10, atol=1e-10, msg=key)
    d_wanted, d_got = (
        torch.autograd.grad(
            sum((o[k] * seeds[k]).sum() for k in o),
            list(flat.values()),
            allow_unused=True,  # a state that nothing reads has no gradient in the reference
            materialize_grads=True,
        )
        for o in (wanted, got)
    )
    for key, w, g in zip(flat, d_wanted, d_got, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-8, msg=lambda m, k=key: f"d {k}: {m}")
