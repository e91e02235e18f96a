"""The tensors of a ragged case, the same for all contenders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..inputs import DTYPES
from .cases import RaggedCase


@dataclass(frozen=True)
class RaggedInputs:
    """What a case runs on.

    Attributes:
        x: (T, B, features); what lies past a row's end is never read.
        seed: the gradient of the output, (T, B, directions * hidden); 0 past a row's end.
        lengths: (B,) int64 on the CPU, as `pack_padded_sequence` wants them.
        reset: (T, B), whether a row starts anew before a step; never at step 0.
    """

    x: Tensor
    seed: Tensor
    lengths: Tensor
    reset: Tensor


def ragged_inputs(case: RaggedCase, device: str) -> RaggedInputs:
    """Draw the tensors of a case.

    Args:
        case: the case.
        device: "cpu" or "cuda".
    """
    options: dict[str, Any] = {"device": device, "dtype": DTYPES[case.dtype]}
    steps, batch = case.steps, case.batch
    lengths = torch.full((batch,), steps)
    if case.shortest:
        lengths = torch.randint(case.shortest, steps + 1, (batch,))
        lengths[0], lengths[-1] = steps, case.shortest
    reset = torch.rand(steps, batch, device=device) < case.resets
    reset[0] = False
    seed = torch.randn(steps, batch, (1 + case.both) * case.hidden, **options)
    past = torch.arange(steps)[:, None] >= lengths
    seed.masked_fill_(past[..., None].to(device), 0)
    return RaggedInputs(torch.randn(steps, batch, case.hidden, **options), seed, lengths, reset)
