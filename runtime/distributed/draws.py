"""Draws of a rank for its heads and its features: inputs of a cell, masks of dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ...cellspec.noise.draw import Kind
from ..run.draws import Undrawn, drawn, fill


def draw_of_rank(
    undrawn: Undrawn,
    rank: int,
    like: Tensor,
    shape: tuple[int, int, int, int, int],
    reset: Tensor | None,
) -> Tensor:
    """Draw an input for the heads of a rank: ranks differ, even if all have the same seed.

    The numbers follow from a seed of the generator of the call, by default torch's of the CPU,
    which `torch.manual_seed` sets and which activation checkpointing restores. Arguments besides
    are as in `drawn`; the result is as in `Tensors`, (parts, B, T, N, D).
    """
    own = undrawn.generator
    device = "cpu" if own is None else own.device
    seed = torch.randint(2**62, (), generator=own, device=device)

    def of_rank(kind: Kind, numbers: Sequence[float], empty: Tensor) -> Tensor:
        found: Tensor = _drawn(empty, seed, rank, kind, list(numbers))
        return found

    return drawn(undrawn, like, shape, of_rank, reset).transpose(1, 2)


def dropped(x: Tensor, probability: float, rank: int) -> Tensor:
    """Drop features by a mask of this rank, by a seed as in `draw_of_rank`."""
    kept: Tensor = _drawn(
        x.detach(), torch.randint(2**62, ()), rank, "bernoulli", [1 - probability]
    )
    return x * kept * (1 / (1 - probability) if probability < 1 else 0.0)


# An operator, since compilers trace no generators. It has no state: its result follows from the
# seed, which torch draws, so what computes it again needs nothing else. CUDA graphs leave it out.
@torch.library.custom_op("rnnc::drawn_inputs", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def _drawn(like: Tensor, seed: Tensor, rank: int, kind: str, numbers: Sequence[float]) -> Tensor:
    """Draw numbers from a seed that all ranks share."""
    generator = torch.Generator(like.device).manual_seed(int(seed) + rank)
    return fill(generator, cast(Kind, kind), numbers, torch.empty_like(like))


@_drawn.register_fake
def _(like: Tensor, *_: object) -> Tensor:
    return torch.empty_like(like)
