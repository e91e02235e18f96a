"""Copies of tensors into new ones, by a launch for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...targets.moves import Moves
from .rearrange import Job, in_order, rearrange


class CudaMoves(Moves):
    """Collector of copies, which are done when the context ends."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            rearrange(self._jobs)

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return tensors of at most four axes beside each other on one, alike in the others."""
        shape = list(tensors[0].shape)
        counts = [tensor.shape[axis] for tensor in tensors]
        shape[axis] = sum(counts)
        to, first = tensors[0].new_empty(shape), 0
        for tensor, count in zip(tensors, counts, strict=True):
            self._jobs.append(Job(to.narrow(axis, first, count), tensor[None]))
            first += count
        return to

    def packed(self, tensor: Tensor) -> Tensor:
        """Return a tensor of at most four axes without gaps; itself, if it has none."""
        to, jobs = in_order(tensor)
        self._jobs += jobs
        return to
