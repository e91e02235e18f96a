"""Dropout between layers whose features are spread over ranks."""

from __future__ import annotations

import torch
from torch import Tensor


def dropped(x: Tensor, probability: float, rank: int) -> Tensor:
    """Drop features by a mask that differs between ranks, even if all ranks have the same seed.

    The mask follows from torch's generator of the CPU, which `torch.manual_seed` sets and which
    activation checkpointing restores.
    """
    kept: Tensor = _kept(x.detach(), torch.randint(2**62, ()), rank, probability)
    return x * kept * (1 / (1 - probability) if probability < 1 else 0.0)


# An operator, since compilers trace no generators. It has no state: its result follows from the
# seed, which torch draws, so what computes it again needs nothing else. CUDA graphs leave it out.
@torch.library.custom_op("rnnc::kept_features", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def _kept(x: Tensor, seed: Tensor, rank: int, probability: float) -> Tensor:
    """Draw 1 for features of x that a rank keeps, else 0, from a seed that all ranks share."""
    generator = torch.Generator(x.device).manual_seed(int(seed) + rank)
    return torch.empty_like(x).bernoulli_(1 - probability, generator=generator)


@_kept.register_fake
def _(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x)
