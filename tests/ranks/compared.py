"""A module on all ranks, compared by name with the same module in one process."""

from __future__ import annotations

import copy
from typing import Any

import rnnc
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

# Gradients are sums in another order than in one process.
CLOSE = {torch.float64: 1e-10, torch.float32: 1e-4}


def made(mesh, cell, dtype=torch.float64, **options) -> rnnc.RNN:
    """A module with the same weights on all ranks."""
    torch.manual_seed(1)
    sizes = {"input_size": 5, "hidden_size": 24, "heads": 4} | options
    rnn = rnnc.RNN(cell, **sizes, dtype=dtype)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.uniform_(-0.5, 0.5)
    return rnn.to(mesh.device_type)


def spread(rnn, mesh, style) -> rnnc.RNN:
    """The same module, its heads spread over the ranks."""
    return parallelize_module(copy.deepcopy(rnn), mesh, style)


def drawn(mesh, *shape, dtype=torch.float64, seed=2) -> torch.Tensor:
    """Numbers that are the same on all ranks."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator).to(mesh.device_type)


def heads_of(tensor, mesh) -> torch.Tensor:
    """This rank's part of the last axis, whole heads."""
    return tensor.chunk(mesh.size(), -1)[mesh.get_local_rank()]


def joined(tensor, mesh, dim: int) -> torch.Tensor:
    """The parts of all ranks along an axis; they may differ in size there."""
    found: list[Any] = [None] * mesh.size()
    dist.all_gather_object(found, tensor.detach().cpu(), group=mesh.get_group())
    return torch.cat(found, dim).to(tensor.device)


def gradients(module) -> dict[str, torch.Tensor]:
    """The whole gradient of each parameter."""
    found = {}
    for name, parameter in module.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        found[name] = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
    return found


def assert_alike(found: dict[str, Any], wanted: dict[str, Any], exact: bool = False) -> None:
    """Compare by name."""
    assert found.keys() == wanted.keys(), (sorted(found), sorted(wanted))
    for name, value in wanted.items():
        own = found[name]
        tolerance = 0.0 if exact else CLOSE[value.dtype]
        torch.testing.assert_close(
            own, value, rtol=tolerance, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}"
        )
