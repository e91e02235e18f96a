"""Rounding of float32 factors of products: the one place that reads torch's flags."""

from __future__ import annotations

from typing import Any

import torch

from ....codegen.shape import Precision
from ...program.multiplier import Multiplier
from .multiplier import EXACT, ROUNDED


def rounds(dtype: torch.dtype, precision: Precision) -> bool:
    """Return True if the products of a call may round their factors to TF32.

    Only float32 has the choice. A precision of None follows
    `torch.backends.cudnn.rnn.fp32_precision`, as `nn.LSTM` does: TF32 unless the user says
    otherwise. That flag follows the older `torch.backends.cudnn.allow_tf32`, which raises an error
    once a new flag is set.
    """
    if dtype != torch.float32:
        return False
    if precision is None:
        flags: Any = torch.backends.cudnn.rnn
        return bool(flags.fp32_precision == "tf32")
    return precision == "tf32"


def multiplier(dtype: torch.dtype, tf32: bool) -> Multiplier:
    """Return the multiplier of tensors of a dtype."""
    return ROUNDED if tf32 and dtype == torch.float32 else EXACT
