"""Agreement of all ranks of a mesh before a collective: all go on, or all raise."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from ...errors import RnncError, TensorError


def agree(mesh: DeviceMesh, facts: dict[str, Any], problem: RnncError | None = None) -> None:
    """Raise on all ranks if one has a problem, or if their facts differ.

    All ranks of the mesh, which has one dimension, call this at the same point. A fact has the name
    of the argument that it is about. The error names the rank with the problem, or the fact that
    differs.
    """
    parts = None if problem is None else (problem.where, problem.found, problem.wanted)
    own = parts and (*parts, problem.write if problem is not None else ""), facts
    everyone: list[Any] = [None] * mesh.size()
    dist.all_gather_object(everyone, own, group=mesh.get_group())
    for rank, (wrong, _) in enumerate(everyone):
        if wrong is not None:
            where, found, wanted, write = wrong
            raise TensorError(where, f"{found}, on rank {rank} of the mesh", wanted, write)
    first = everyone[0][1]
    for rank, (_, others) in enumerate(everyone):
        for name, fact in others.items():
            if fact != first[name]:
                raise TensorError(
                    name,
                    f"{first[name]} on rank 0 of the mesh, {fact} on rank {rank}",
                    "the same on all ranks",
                    f"the same {name} on all ranks",
                )
