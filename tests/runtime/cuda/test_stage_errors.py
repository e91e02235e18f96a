"""How far kernels of cells with stages are from float64, beside a loop of torch's operations."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, State, layer_norm

from .test_stage_values import T, found, module

slow = pytest.mark.slow  # half a minute each, most of it in the C++ compiler
DIMS = {"block": 24, "cluster": 40, "grid": 72}
CASES = [
    pytest.param("gru", "block", torch.bfloat16),
    *(
        pytest.param(name, variant, dtype, marks=slow)
        for name in ("gru", "norm_lstm", "rhn", "block_gru")
        for variant in DIMS
        for dtype in (torch.bfloat16, torch.float16)
        if (name, variant, dtype) != ("gru", "block", torch.bfloat16)
    ),
]


@pytest.mark.parametrize(("name", "variant", "dtype"), CASES)
def test_two_byte_elements(name, variant, dtype, emulated_blocks, staged_cells, poisoned):
    """Of all results together, and of all gradients, at most 1.5 times the loop's."""
    twin = staged_cells.TWINS.get(name)
    cell, dim = rnnc.cells.get(name) if twin is None else twin[0], DIMS[variant]
    kernels, loop, exact = (
        found(module(cell, backend, kind, dim, variant).to(dtype).to(kind), {}, dtype)
        for backend, kind in (
            ("simulated", dtype),
            ("reference", dtype),
            ("reference", torch.float64),
        )
    )
    assert {plan.kind for plan in emulated_blocks} == {variant}
    for gradients in (False, True):
        errors = []
        for own in (kernels, loop):
            parts = [
                (own[key].double() - value).square().sum() / value.square().sum()
                for key, value in exact.items()
                if key.startswith("d ") is gradients
            ]
            errors.append(torch.stack(parts).mean().sqrt())
        ours, theirs = errors
        assert ours <= 1.5 * theirs, f"gradients {gradients}: {ours:.2e} and {theirs:.2e}"


@pytest.mark.parametrize("variant", ["block", pytest.param("cluster", marks=slow), "grid"])
def test_norms_of_values_far_from_zero(variant, emulated_blocks, poisoned):
    """Mean 1,000 and deviation 1: squares of the values would have no digit left."""

    @rnnc.cell
    def normed(g: Gate, h: State):
        return layer_norm(g) + 0 * h

    dim = {"block": 64, "cluster": 160, "grid": 168}[variant]
    wx = 1000 + torch.randn(2, T, 1, dim, 1)
    wanted = torch.nn.functional.layer_norm(wx[..., 0].double(), (dim,))
    options = {"backend": "simulated", "variant": variant}
    (y,), _ = rnnc.scan(normed, wx, torch.zeros(1, 1, dim, dim), **options)
    assert {plan.kind for plan in emulated_blocks} == {variant}
    torch.testing.assert_close(y.double(), wanted, rtol=0, atol=2e-4)
