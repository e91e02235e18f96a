"""Exchange of tensors between two ways to spread them over ranks.

A rank has some steps of all heads, or all steps of some heads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributed import _functional_collectives  # noqa: F401  (registers the operators)
from torch.distributed.device_mesh import DeviceMesh

# Their results are plain tensors, which kernels read. Compilers trace them.
_collectives: Any = torch.ops._c10d_functional


class _AllToAll(torch.autograd.Function):
    """Exchange of the parts of x along its first axis: each part comes from another rank."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, received: list[int], sent: list[int], group: str) -> Tensor:
        ctx.call = received, sent, group
        return _all_to_all(x, received, sent, group)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        received, sent, group = ctx.call
        return _all_to_all(d_y, sent, received, group), None, None, None


def _all_to_all(x: Tensor, received: list[int], sent: list[int], group: str) -> Tensor:
    given = _collectives.all_to_all_single(x.contiguous(), received, sent, group)
    found: Tensor = _collectives.wait_tensor(given)
    return found


class _AllGather(torch.autograd.Function):
    """Tensors of all ranks along the first axis; gradients are summed over the ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: int, group: str) -> Tensor:
        ctx.call = ranks, group
        given = _collectives.all_gather_into_tensor(x.contiguous(), ranks, group)
        found: Tensor = _collectives.wait_tensor(given)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        given = _collectives.reduce_scatter_tensor(d_y.contiguous(), "sum", *ctx.call)
        return _collectives.wait_tensor(given), None, None


_exchange: Any = _AllToAll.apply
_gather: Any = _AllGather.apply


class Steps(NamedTuple):
    """Steps of each rank of a mesh of one dimension, in the order of time."""

    mesh: DeviceMesh
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of steps of all ranks, T."""
        return sum(self.counts)

    @property
    def own(self) -> int:
        """Number of steps of this rank."""
        return self.counts[self.mesh.get_local_rank()]

    @property
    def first(self) -> int:
        """Number of this rank's first step."""
        return sum(self.counts[: self.mesh.get_local_rank()])

    def to_heads(self, x: Tensor) -> Tensor:
        """Exchange some steps of all heads, (T_r, B, N, ...), for all steps of this rank's heads.

        The result is (T, B, N / n, ...), contiguous.
        """
        ranks = len(self.counts)
        by_rank = torch.unflatten(x, 2, (ranks, -1)).movedim(2, 0)
        sent = by_rank.flatten(0, 1)
        sizes = list(self.counts), [self.own] * ranks
        return self._exchanged(sent, *sizes)

    def to_steps(self, y: Tensor) -> Tensor:
        """Exchange all steps of this rank's heads, (T, B, N / n, ...), for some steps of all heads.

        The result is (T_r, B, N, ...).
        """
        ranks = len(self.counts)
        sizes = [self.own] * ranks, list(self.counts)
        received = self._exchanged(y, *sizes)
        return torch.unflatten(received, 0, (ranks, self.own)).movedim(0, 2).flatten(2, 3)

    def gathered(self, x: Tensor) -> Tensor:
        """Return x (T_r, ...) with all steps, on all ranks.

        x is of bool, or of numbers, whose gradients are summed over the ranks.
        """
        most, given = max(self.counts), x.to(torch.uint8) if x.dtype == torch.bool else x
        if self.own < most:
            padding = given.new_zeros(most - self.own, *given.shape[1:])
            given = torch.cat((given, padding))
        found: Tensor = _gather(given, len(self.counts), self.mesh.get_group().group_name)
        if most * len(self.counts) > self.total:
            parts = zip(torch.split(found, most), self.counts, strict=True)
            found = torch.cat([part[:count] for part, count in parts])
        return found.to(x.dtype)

    def _exchanged(self, x: Tensor, received: list[int], sent: list[int]) -> Tensor:
        """Exchange the parts of x along its first axis."""
        found: Tensor = _exchange(x, received, sent, self.mesh.get_group().group_name)
        return found
