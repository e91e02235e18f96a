"""Loops on a GPU: every plan computes what the reference's loop computes, gradients by name."""

from __future__ import annotations

import pytest
import rnnc
import torch

NAMES = ["nested", "chained", "decaying", "spiking"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_every_plan_runs_the_passes(
    name, dtype, variant, shape, draw, seeds_for, results, errors_are_small, loop_cells
):
    cell = loop_cells.CELLS[name](rnnc.repeat, 6)
    inputs = draw(cell, shape, dtype, variant)
    seeds = seeds_for(cell, inputs)
    own = results(cell, inputs, seeds, "reference")
    exact = inputs.map(lambda t: t.detach().double().requires_grad_())
    truth = results(cell, exact, {n: s.double() for n, s in seeds.items()}, "reference")
    for choice in ({"variant": variant}, {"variant": variant, "save": "states"}, {}):
        errors_are_small(results(cell, inputs, seeds, **choice), own, truth)


@pytest.mark.parametrize("passes", [6, 700])
def test_layers_with_inputs_and_lengths(passes, loop_cells):
    """In both directions; of 700 passes the backward runs groups twice."""
    torch.manual_seed(5)
    cell = loop_cells.neuron(rnnc.repeat, passes)
    options = {"num_layers": 2, "bidirectional": True, "precision": "ieee"}
    rnn = rnnc.RNN(cell, 24, 32, **options).cuda()
    exact = rnnc.RNN(cell, 24, 32, backend="reference", **options).double().cuda()
    exact.load_state_dict(rnn.state_dict())
    x, drive = torch.randn(5, 3, 24, device="cuda"), torch.randn(5, 3, 32, device="cuda")
    lengths, found = torch.tensor([5, 2, 3]), []
    for module in (rnn, exact):
        dtype = next(module.parameters()).dtype
        given = x.detach().to(dtype, copy=True).requires_grad_()
        y, last = module(given, inputs={"x": drive.to(dtype)}, lengths=lengths)
        (y.sum() + sum(state.square().sum() for state in last)).backward()
        found.append(
            {"y": y, "d x": given.grad, **{n: p.grad for n, p in module.named_parameters()}}
        )
    for name, tensor in found[0].items():
        truth = found[1][name]
        assert (tensor.double() - truth).abs().max() < 2e-5 * truth.abs().max(), name
