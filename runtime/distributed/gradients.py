"""Gradients of parameters that all ranks of a mesh have."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor


def reduce_gradients(module: nn.Module, mesh: DeviceMesh) -> None:
    """Sum over ranks the gradients of all parameters that are not spread over their mesh.

    With `SequenceParallel` each rank has the loss of its own steps. Layers that are no recurrent
    layers, an embedding for example, then have the gradient of a part of the loss on each rank.
    Call this between `backward` and the optimizer's step.

    Args:
        module: the whole model, after `backward`. Gradients that are DTensors stay as they are.
        mesh: of one dimension. A parameter has a gradient on all of its ranks, or on none.

    Example:
        >>> import rnnc
        >>> # loss.backward()
        >>> # rnnc.distributed.reduce_gradients(model, mesh["steps"])
        >>> # optimizer.step()
    """
    by_kind: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for parameter in module.parameters():
        gradient = parameter.grad
        if gradient is not None and not isinstance(gradient, DTensor):
            by_kind.setdefault((gradient.dtype, gradient.device), []).append(gradient)
    for gradients in by_kind.values():
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat, group=mesh.get_group())
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
