"""Dropout between layers whose features are spread over ranks."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def dropped(x: Tensor, probability: float, rank: int) -> Tensor:
    """Dropout whose mask differs between ranks, also where all ranks have the same seed.

    The mask follows from torch's generator of the CPU, which `torch.manual_seed` sets and which
    activation checkpointing restores. A compiler draws it by torch's own dropout.

    Args:
        x: of any shape.
        probability: of dropping a feature.
        rank: of the mesh.
    """
    if torch.compiler.is_compiling():
        return F.dropout(x, probability)
    seed = int(torch.randint(2**62, ())) + rank
    generator = torch.Generator(x.device).manual_seed(seed)
    kept = torch.empty_like(x, requires_grad=False).bernoulli_(1 - probability, generator=generator)
    return x * kept * (1 / (1 - probability) if probability < 1 else 0.0)
