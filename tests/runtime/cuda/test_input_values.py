"""Inputs that no weight multiplies in kernels that run as C++ on the CPU: in all layouts."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State, bernoulli, normal, sigmoid, tanh

# B, T, N, D: three tiles of rows, heads that blocks share, steps for all stages of the copies.
SIZES = {
    "block": (11, 13, 2, 24),
    "cluster": (19, 13, 2, 72),
    "small cluster": (19, 13, 2, 40),  # whose backward copies rows of states and inputs at once
}


@rnnc.cell
def drawn(
    z: Gate, g: Gate, h: State, c: State, *, keep: Input = bernoulli(0.3), xi: Input = normal()
):
    c = keep * c + (1 - keep) * tanh(g + xi * h)
    return sigmoid(z) * c + keep * h, c


@rnnc.cell
def passed(z: Gate, g: Gate, h: State, c: State, *, keep: Input = bernoulli(0.3), xi: Input):
    c = keep * c + (1 - keep) * tanh(g + xi * h)
    return sigmoid(z) * c + keep * h, c


def layouts(batch, steps, heads, dim, dtype):
    """The same kind of tensor in any strides that a caller may have."""

    def new(*sizes):
        return torch.rand(sizes).to(dtype)

    return {
        "without gaps": new(batch, steps, heads, dim),
        "time first": new(steps, batch, heads, dim).transpose(0, 1),
        "once per sequence": new(batch, 1, heads, dim),
        "of a larger tensor": new(batch, steps, heads, dim + 3)[..., 3:],
        "unit by unit": new(dim, heads, steps, batch).permute(3, 2, 1, 0),
        "not aligned": new(batch * steps * heads * dim + 1)[1:].view(batch, steps, heads, dim),
        "for all units": new(steps, batch).t()[..., None, None],
        "for all rows": new(1, steps, 1, dim).expand(batch, -1, heads, -1),
        "one number": new(1, 1, 1, 1),
    }


def results(cell, inputs, given, seeds, **choice):
    over_time, last = rnnc.scan(
        cell, inputs.wx, inputs.R, inputs.b, inputs.states, inputs=given, **choice
    )
    leaves = inputs.named() | {f"inputs {n}": v for n, v in given.items() if v.requires_grad}
    gradients = torch.autograd.grad([*over_time, *last], list(leaves.values()), seeds)
    found = {f"over time {i}": s for i, s in enumerate(over_time)}
    found |= {f"last {i}": s for i, s in enumerate(last)}
    return found | {f"d {name}": g for name, g in zip(leaves, gradients, strict=True)}


slow = pytest.mark.slow  # most of it in the C++ compiler
CASES = [
    ("block", drawn, torch.float32),
    pytest.param("block", passed, torch.float32, marks=slow),
    pytest.param("block", drawn, torch.bfloat16, marks=slow),
    pytest.param("cluster", drawn, torch.float32, marks=slow),
    pytest.param("cluster", drawn, torch.bfloat16, marks=slow),
    pytest.param("cluster", passed, torch.bfloat16, marks=slow),
    pytest.param("small cluster", drawn, torch.bfloat16, marks=slow),
]


@pytest.mark.parametrize(("sizes", "cell", "dtype"), CASES)
def test_layouts(sizes, cell, dtype, emulated_blocks, inputs_for, poisoned):
    kind, sizes = sizes.split()[-1], SIZES[sizes]
    batch, steps, heads, dim = sizes
    reverse = random.random() < 0.5
    inputs = replace(inputs_for(cell, *sizes, dtype), inputs={})
    seeds = [torch.randn(batch, steps, heads, dim).to(dtype) for _ in cell.states]
    seeds += [torch.randn(batch, heads, dim).to(dtype) for _ in cell.states]
    values = layouts(*sizes, dtype)
    for name, xi in values.items():
        given = {"keep": random.choice(list(values.values())), "xi": xi}
        if cell is passed:
            given["xi"] = xi.detach().requires_grad_()
        exact = {n: v.detach().double().requires_grad_(v.requires_grad) for n, v in given.items()}
        choice = {"reverse": reverse, "backend": "reference"}
        wanted = results(
            cell,
            inputs.map(lambda t: t.detach().double().requires_grad_(t.requires_grad)),
            exact,
            [seed.double() for seed in seeds],
            **choice,
        )
        choice = {"reverse": reverse, "backend": "simulated", "variant": kind, "precision": "ieee"}
        got = results(cell, inputs, given, seeds, **choice)
        bound = 3e-5 if dtype == torch.float32 else 4e-2
        for each, value in wanted.items():
            assert not got[each].isnan().any(), (name, each)
            error = (got[each].double() - value).norm() / max(value.norm(), 1e-3)
            assert error < bound, f"{name}, {each}: {error}"
    assert {plan.kind for plan in emulated_blocks} == {kind}
