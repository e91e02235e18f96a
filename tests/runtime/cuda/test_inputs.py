"""Inputs that no weight multiplies on a GPU whose driver takes notes, and their kernels."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State, bernoulli, normal, sigmoid, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.launchers import LAUNCHERS
from rnnc.runtime.cuda.nvrtc import NvrtcToolchain
from rnnc.runtime.module import given as given_module
from rnnc.runtime.store.compiled import compile_cell

BATCH, STEPS, HEADS, DIM = 3, 5, 2, 64
KINDS = ("block", "cluster", "grid", "alternating")


@rnnc.cell
def masked_gru(z: Gate, g: Gate, dt: Input, m: Input, h: State):
    z = sigmoid(z) * m
    return (1 - z) * h + z * tanh(g * dt)


@rnnc.cell
def zoned_gru(
    z: Gate, g: Gate, h: State, *, keep: Input = bernoulli(0.2), xi: Input = normal(std=0.1)
):
    new = (1 - sigmoid(z)) * h + sigmoid(z) * tanh(g + xi)
    return keep * h + (1 - keep) * new


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_read_inputs_as_they_lie(kind, simulated_gpu, monkeypatch):
    notes = {}

    def run(launcher, arguments, R, like, steps):
        notes[launcher._plan.direction] = arguments

    for launcher in set(LAUNCHERS.values()):
        monkeypatch.setattr(launcher, "run", run)
    wx, R = torch.randn(BATCH, STEPS, HEADS, DIM, 2), torch.randn(2, HEADS, DIM, DIM)
    dt = torch.rand(STEPS, BATCH).t().requires_grad_()
    m = torch.rand(BATCH, 1, HEADS, 1, requires_grad=True)
    inputs = {"m": m, "dt": dt}
    results, _ = rnnc.scan(masked_gru, wx, R, inputs=inputs, backend="simulated", variant=kind)
    d_dt, d_m = torch.autograd.grad(results[0].sum(), [dt, m])
    assert (d_dt.shape, d_m.shape) == (dt.shape, m.shape)
    for arguments in notes.values():
        found = arguments.unweighted
        assert list(found.tensor) == [dt.data_ptr(), m.data_ptr()]
        assert list(found.time) == [BATCH, 0]
        assert list(found.row) == [1, HEADS]
        assert list(found.head) == [0, 1]
        assert list(found.unit) == [0, 0]


# With the gradients of both inputs; of none, as they are drawn; and of one of two.
ASKED = [
    masked_gru,
    zoned_gru,
    masked_gru.model_copy(update={"inputs": (Input(name="m", gradient=False), Input(name="dt"))}),
]


@pytest.mark.parametrize("cell", ASKED, ids=["all", "none", "one"])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_compile_without_spills(kind, cell):
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    dim = 256 if kind in ("cluster", "grid") else DIM
    plan = rnnc.plan_for(cell, Shape(1, dim, batch=16), limits_of("H200"), kind)
    plan = plan.in_time(False, masked=kind == "block")
    for each in (plan.forward, plan.backward):
        library = compile_cell(cell, each, NvrtcToolchain(plan.arch))
        spills = {name: report.spills for name, report in library.reports.items() if report.spills}
        assert spills == {}


def test_each_direction_of_each_layer_reads_its_own(simulated_gpu, monkeypatch):
    """Also where a call comes again, and its program has other addresses."""
    notes, drawn = [], []

    def run(launcher, arguments, R, like, steps):
        notes.append(tuple(arguments.unweighted.tensor))

    def noting(*call):
        drawn.append(draw(*call))
        return drawn[-1]

    for launcher in set(LAUNCHERS.values()):
        monkeypatch.setattr(launcher, "run", run)
    draw = given_module.draws_of_module
    monkeypatch.setattr(given_module, "draws_of_module", noting)
    options = {"num_layers": 2, "bidirectional": True, "backend": "simulated", "variant": "block"}
    rnn = rnnc.RNN(zoned_gru, 8, HEADS * DIM, heads=HEADS, **options)
    x = torch.randn(STEPS, BATCH, 8)
    for _ in range(4):
        notes.clear(), drawn.clear()
        rnn(x)[0].sum().backward()
        parts = [tuple(t[i].data_ptr() for t in drawn[0].values()) for i in range(4)]
        assert notes[:4] == parts
        assert sorted(notes[4:]) == sorted(parts)
