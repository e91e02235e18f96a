"""Exchange of some steps of all heads for all steps of some heads, between ranks."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.distributed import _functional_collectives
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

_collectives: Any = _functional_collectives
_operators: Any = torch.ops._c10d_functional
_delayed_error: Any = torch._C._functions.DelayedError


def replicated(part: DTensor, mesh: DeviceMesh) -> DTensor:
    """Gather a tensor of which each rank has a part."""
    with _without_inference():
        return part.redistribute(mesh, [Replicate()])


def _without_inference() -> AbstractContextManager[Any]:
    """Replace inference mode, in which torch 2.11 gathers no DTensor, by `no_grad`."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return nullcontext()
    stack = ExitStack()
    stack.enter_context(torch.inference_mode(False))
    stack.enter_context(torch.no_grad())
    return stack


def _once(x: Tensor) -> Tensor:
    """Return x, whose gradient cannot be differentiated again.

    Torch 2.11 has no derivative of the collectives of a backward, and only warns. A compiled graph
    has no second derivative anyway.
    """
    if not x.requires_grad or torch.compiler.is_compiling():
        return x
    found = x.view_as(x)
    found.register_hook(_refuse_second)  # type: ignore[no-untyped-call]
    return found


def _refuse_second(gradient: Tensor) -> Tensor:
    if not (torch.is_grad_enabled() and gradient.requires_grad):
        return gradient
    text = b"an exchange of SequenceParallel between ranks has no second derivative"
    refused: Tensor = _delayed_error(text, 1)(gradient)
    return refused


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
        """Exchange this rank's steps of all heads, (T_r, B, N, ...), for its heads of all steps."""
        ranks = len(self.counts)
        by_rank = torch.unflatten(x, 2, (ranks, -1)).movedim(2, 0)
        sent = by_rank.flatten(0, 1)
        sizes = list(self.counts), [self.own] * ranks
        return self._exchanged(sent, *sizes)

    def to_steps(self, y: Tensor) -> Tensor:
        """Exchange its heads of all steps, (T, B, N / n, ...), for a rank's steps of all heads."""
        ranks = len(self.counts)
        sizes = [self.own] * ranks, list(self.counts)
        received = self._exchanged(y, *sizes)
        return torch.unflatten(received, 0, (ranks, self.own)).movedim(0, 2).flatten(2, 3)

    def gathered(self, x: Tensor) -> Tensor:
        """Return x (T_r, ...) with all steps, on all ranks; gradients are summed over them."""
        most, given = max(self.counts), x.to(torch.uint8) if x.dtype == torch.bool else x
        if self.own < most:
            padding = given.new_zeros(most - self.own, *given.shape[1:])
            given = torch.cat((given, padding))
        part = DTensor.from_local(_once(given), self.mesh, [Shard(0)], run_check=False)
        found = replicated(part, self.mesh).to_local(grad_placements=[Partial()])
        if most * len(self.counts) > self.total:
            parts = zip(torch.split(found, most), self.counts, strict=True)
            found = torch.cat([part[:count] for part, count in parts])
        return found.to(x.dtype)

    def _exchanged(self, x: Tensor, received: list[int], sent: list[int]) -> Tensor:
        """Exchange parts along the first axis, and wait: kernels read the plain result."""
        group = self.mesh.get_group().group_name
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            # Torch 2.11 has the operator with a derivative for tensors of autograd alone.
            given = _operators.all_to_all_single(x.contiguous(), received, sent, group)
            return cast(Tensor, _operators.wait_tensor(given))
        found = _collectives.all_to_all_single_autograd(
            _once(x.contiguous()), received, sent, group
        )
        # No view in torch's eyes, so that the wait comes here, and no copy.
        return cast(Tensor, torch.ops.aten._unsafe_view(found, found.shape))
