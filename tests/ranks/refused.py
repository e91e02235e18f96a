"""Checks of what all ranks refuse together, with an `RnncError` and without a hang."""

from __future__ import annotations

import copy

import pytest
import rnnc
import torch
import torch.distributed as dist
from compared import drawn, made, spread
from rnnc.distributed import HeadwiseParallel, SequenceParallel
from torch import nn
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import parallelize_module

STYLES = HeadwiseParallel, SequenceParallel


def refuse(mesh, module, match, style=HeadwiseParallel):
    before = dict(module.named_parameters())
    with pytest.raises(rnnc.TensorError, match=match):
        parallelize_module(module, mesh, style())
    assert all(module.get_parameter(name) is each for name, each in before.items())


def check_refused_sizes_and_modules(mesh):
    for style in STYLES:
        refuse(mesh, made(mesh, rnnc.cells.lstm, heads=1), "fewer than ranks", style)
        refuse(mesh, made(mesh, rnnc.cells.lstm, heads=3), "a multiple of 2", style)
        refuse(mesh, rnnc.nn.LSTM(4, 8), "a module of the class LSTM", style)
        wave = made(mesh, rnnc.cells.lstm, layers="wavefront", num_layers=2)
        refuse(mesh, wave, "layers one|wavefront", style)
    projected = made(mesh, rnnc.cells.lstm, proj_size=2)
    refuse(mesh, projected, "proj_size=2", SequenceParallel)
    with pytest.raises(rnnc.TensorError, match="output_layouts"):
        HeadwiseParallel(output_layouts=Shard(0))


def check_refused_where_one_rank_differs(mesh):
    """The other ranks say so too, instead of waiting."""
    first = mesh.get_local_rank() == 0
    other = made(mesh, rnnc.cells.lstm, num_layers=1 if first else 2)
    refuse(mesh, other, "num_layers")
    refuse(mesh, made(mesh, rnnc.cells.lstm, heads=4 if first else 1), "on rank 1 of the mesh")
    half = made(mesh, rnnc.cells.lstm, dtype=torch.float64 if first else torch.float32)
    refuse(mesh, half, "dtype")
    where = mesh.device_type if first else {"cpu": "meta", "cuda": "cpu"}[mesh.device_type]
    refuse(mesh, made(mesh, rnnc.cells.lstm).to(where), "device|parameters on")
    for style in STYLES:
        own = spread(made(mesh, rnnc.cells.lstm), mesh, style())
        with pytest.raises(rnnc.TensorError, match="shape"):
            own(drawn(mesh, 4 if first else 5, 3, 5))
        with pytest.raises(rnnc.TensorError, match="x"):
            own(drawn(mesh, 4, 3, 5 if first else 6))
        own(drawn(mesh, 4, 3, 5))


def check_refused_meshes(mesh):
    rnn = made(mesh, rnnc.cells.lstm)
    flat = dist.init_device_mesh(mesh.device_type, (1, mesh.size()))
    refuse(flat, rnn, "one dimension")
    with pytest.raises(rnnc.TensorError, match="DeviceMesh"):
        HeadwiseParallel()._apply(rnn, "cpu")


def check_refused_after_use(mesh):
    """A module that was used before, and what was made of it then."""
    for style in STYLES:
        rnn, x = made(mesh, rnnc.cells.lstm), drawn(mesh, 4, 3, 5)
        y, _ = rnn(x)
        for _ in range(3):
            rnn(x)
        y.sum().backward()
        refuse(mesh, rnn, "a gradient of an earlier call", style)
        rnn.zero_grad()
        stepper = rnn.stepper(3)
        own = parallelize_module(rnn, mesh, style())
        with pytest.raises(rnnc.TensorError, match="weight_ih_l0"):
            stepper(x[0])
        with pytest.raises(rnnc.TensorError, match="stepper"):
            own.stepper(3)
        if style is SequenceParallel:
            with pytest.raises(rnnc.TensorError, match="a single step"):
                own.step(x[0])
            reset = torch.zeros(4, 3, dtype=torch.bool, device=x.device)
            values = [drawn(mesh, 1, 4, 3, 12)] * 2
            with pytest.raises(rnnc.TensorError, match="stored for each step"):
                own(x, reset=reset, reset_to=values)
        y, _ = own(x)
        y.sum().backward()
        refuse(mesh, own, "spread over ranks already", style)
        computed = nn.utils.parametrizations.weight_norm(made(mesh, rnnc.cells.lstm), "bias_l0")
        with pytest.raises(rnnc.TensorError, match="computed at every call"):
            parallelize_module(copy.deepcopy(computed), mesh, style())
