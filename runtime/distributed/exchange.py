"""Exchanges between ranks: steps for heads, gradients, and facts on which all must agree."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from ...errors import RnncError, TensorError


def agree(mesh: DeviceMesh, facts: dict[str, Any], problem: RnncError | None = None) -> None:
    """Raise on all ranks if one has a problem, or if their facts differ.

    All ranks of the mesh, which has one dimension, call this at the same point. A fact has the name
    of the argument that it is about. The error names the rank with the problem, or the fact that
    differs.
    """
    parts = problem and (problem.where, problem.found, problem.wanted, problem.write)
    everyone: list[Any] = [None] * mesh.size()
    dist.all_gather_object(everyone, (parts, facts), group=mesh.get_group())
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
        return self._exchanged(by_rank.flatten(0, 1), [*self.counts], [self.own] * ranks)

    def to_steps(self, y: Tensor) -> Tensor:
        """Exchange its heads of all steps, (T, B, N / n, ...), for a rank's steps of all heads."""
        ranks = len(self.counts)
        received = self._exchanged(y, [self.own] * ranks, [*self.counts])
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
