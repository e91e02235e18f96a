"""Checks of a cell whose step has stages, which are of a head: spread heads, steps, DDP, FSDP2."""

from __future__ import annotations

import copy

import heads
import rnnc
import steps
import torch
from compared import assert_alike, drawn, gradients, made
from rnnc import Gate, Param, State, layer_norm, param, sigmoid, tanh
from sharded import rows_of
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.parallel import DistributedDataParallel


@rnnc.cell
def staged(z: Gate, r: Gate, n: Gate, h: State, gain: Param = param(init=1.0)):
    """A called gate and two norms."""
    z, r = layer_norm((z, r), gain=(gain, 1))
    candidate = layer_norm(n(sigmoid(r) * h), gain)
    return h + sigmoid(z) * (tanh(candidate) - h)


def check_staged_heads_and_steps(mesh):
    heads.compare(mesh, staged, num_layers=2, bidirectional=True)
    lengths = torch.tensor([heads.T, 4, 0], device=mesh.device_type)
    heads.compare(mesh, staged, {"lengths": lengths})
    heads.compare(mesh, rnnc.cells.multiplicative_lstm, proj_size=2)
    steps.compare(mesh, staged, num_layers=2)


def check_staged_ddp_and_fsdp2(mesh):
    alone, x = made(mesh, staged, num_layers=2), drawn(mesh, 6, 4, 5)
    alone(x)[0].square().mean().backward()
    wanted = gradients(alone)
    for wrap in (DistributedDataParallel, lambda module: fully_shard(module, mesh=mesh)):
        model = wrap(copy.deepcopy(alone))
        for _ in range(2):
            model.zero_grad()
            model(rows_of(mesh, x))[0].square().mean().backward()
        assert_alike(gradients(getattr(model, "module", model)), wanted)
    register_fsdp_forward_method(model, "step")
    for _ in range(2):  # a step that comes again is found
        assert_alike({"y": model.step(x[0])[0]}, {"y": alone.step(x[0])[0]}, exact=True)
