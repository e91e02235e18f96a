"""The torch products of a GPU's backward, tested on the CPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.derive import derive
from rnnc.codegen.layout import layout_of
from rnnc.runtime.call.facts import facts_of
from rnnc.runtime.call.tensors import Saved
from rnnc.runtime.program.gemms import called_sums, gates_again, recurrent_sums, sums_over_time
from rnnc.runtime.program.multiplier import TORCH

CELLS = ["lstm", "gru", "nas_cell", "fastgrnn", "peephole_lstm", "indrnn", "scrn"]
STEPS, BATCH, HEADS, DIM = 5, 3, 2, 4


def draw(*size):
    return torch.randn(*size, dtype=torch.float64)


def before_of(initial, states, reverse):
    """The state before each step."""
    return torch.cat([states[1:], initial[None]] if reverse else [initial[None], states[:-1]])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_the_gradient_of_every_recurrent_matrix(name, reverse):
    cell = rnnc.cells.get(name)
    layout = layout_of(cell)
    inputs, gates = len(layout.input_gates), len(layout.gates)
    d_wx = draw(STEPS, BATCH, HEADS, DIM, inputs)
    d_gates_no_input = draw(STEPS, BATCH, HEADS, DIM, gates - inputs)
    states = [draw(STEPS, BATCH, HEADS, DIM) for _ in cell.states]
    initial = [draw(BATCH, HEADS, DIM) for _ in cell.states]
    tensors = d_wx, d_gates_no_input, states, initial
    found = draw(len(cell.dense_pairs), HEADS, DIM, DIM)
    left = recurrent_sums(found, layout_of(cell).products, *tensors, TORCH, reverse)
    for to, parts in left:
        to.copy_(parts.sum(0))
    d_gates = torch.cat([d_wx, d_gates_no_input], dim=-1)
    assert found.shape == (len(cell.dense_pairs), HEADS, DIM, DIM)
    for i, pair in enumerate(cell.dense_pairs):
        source = layout.states.at(pair.source).number
        before = before_of(initial[source], states[source], reverse)
        d_gate = d_gates[..., layout.gates.at(pair.gate).number]
        torch.testing.assert_close(found[i], torch.einsum("tbno,tbni->noi", d_gate, before))


@pytest.mark.parametrize("steps", [1, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["gru", "deep"])
def test_the_gradient_of_every_matrix_of_a_called_gate(name, dtype, steps, staged_cells):
    cell, _ = staged_cells.TWINS[name]
    layout, facts = layout_of(cell), facts_of(cell)
    inputs, gates = len(layout.input_gates), len(layout.gradients)
    sizes = steps, BATCH, HEADS, DIM
    d_gates = torch.randn(*sizes, gates, dtype=dtype)
    saved = torch.randn(*sizes, len(facts.saved), dtype=dtype)
    d_R = torch.zeros(len(cell.dense_pairs), HEADS, DIM, DIM, dtype=dtype)
    both = d_gates[..., :inputs].contiguous(), d_gates[..., inputs:].contiguous()
    for to, parts in called_sums(d_R, facts.called, *both, saved, TORCH):
        to.copy_(parts.sum(0))
    pairs = [pair.gate for pair in cell.dense_pairs]
    names = [gate for gate in cell.called if gate in pairs]
    assert len(names) == {"gru": 1, "deep": 2}[name]
    for gate in names:
        d_gate = d_gates[..., layout.gates.at(gate).number].double()
        multiplied = saved[..., facts.saved.index(f"{gate}_argument")].double()
        wanted = torch.einsum("tbno,tbni->noi", d_gate, multiplied)
        bound = {"rtol": 1e-5, "atol": 1e-4}
        if dtype == torch.bfloat16:
            bound = {"rtol": 2**-8, "atol": 2**-8 * steps**0.5}
        torch.testing.assert_close(d_R[pairs.index(gate)].double(), wanted, **bound)


def summed(*tensors, **options):
    return sums_over_time(*tensors, **options).sum(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 2, 300])
def test_a_first_state_that_is_known_to_be_zero(steps, dtype):
    rows = torch.randn(steps * BATCH, HEADS, 12, dtype=dtype)
    states = torch.randn(steps, BATCH, HEADS, DIM, dtype=dtype)
    zero = torch.zeros(BATCH, HEADS, DIM, dtype=dtype)
    found = summed(rows, None, states)
    torch.testing.assert_close(found, summed(rows, zero, states))


@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("steps", [1, 2, 43, 44, 700])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_long_sum_in_float32_is_taken_in_parts(steps, heads, reverse):
    rows = torch.randn(steps * BATCH, heads, 48 // heads)
    initial, states = torch.randn(BATCH, heads, DIM), torch.randn(steps, BATCH, heads, DIM)
    found = summed(rows, initial, states, reverse=reverse)
    assert found.dtype == torch.float32
    exact = summed(rows.double(), initial.double(), states.double(), reverse=reverse)
    before = before_of(initial, states, reverse).double().view(steps * BATCH, heads, DIM)
    torch.testing.assert_close(exact, torch.einsum("rnk,rnd->nkd", rows.double(), before))
    assert (found - exact).norm() < 3e-7 * exact.norm()


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_gates_come_back_from_the_states(name, bias, reverse):
    cell = rnnc.cells.get(name)
    layout = layout_of(cell)
    wx = draw(BATCH, STEPS, HEADS, DIM, len(layout.input_gates))
    R = draw(len(cell.dense_pairs), HEADS, DIM, DIM)
    R_diag = draw(len(cell.diagonal_pairs), HEADS, DIM)
    b = draw(len(cell.bias_gates), HEADS, DIM) if bias else None
    states = [draw(STEPS, BATCH, HEADS, DIM) for _ in cell.states]
    initial = [draw(BATCH, HEADS, DIM) for _ in cell.states]
    none = torch.empty(0)  # not read
    saved = Saved(wx, R, b, initial, R_diag, (), states=states, saved=none)
    found = gates_again(cell, saved, TORCH, reverse)
    saved = derive(cell, activations=False).saved
    assert found.shape == (STEPS, BATCH, HEADS, DIM, len(saved))
    before = {
        s.name: before_of(first, sequence, reverse)
        for s, first, sequence in zip(cell.states, initial, states, strict=True)
    }
    for i, gate in enumerate(saved):
        wanted = torch.zeros(STEPS, BATCH, HEADS, DIM, dtype=torch.float64)
        if gate in layout.input_gates:
            wanted += wx[..., layout.input_gates.at(gate).number].transpose(0, 1)
        if b is not None and gate in cell.bias_gates:
            wanted += b[cell.bias_gates.index(gate)]
        for k, pair in enumerate(cell.dense_pairs):
            if pair.gate == gate:
                wanted += torch.einsum("noi,tbni->tbno", R[k], before[pair.source])
        for k, pair in enumerate(cell.diagonal_pairs):
            if pair.gate == gate:
                wanted += R_diag[k] * before[pair.source]
        torch.testing.assert_close(found[..., i], wanted)
