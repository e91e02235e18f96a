"""Whether products of float32 round their factors: the one place that reads torch's flags."""

from __future__ import annotations

from typing import Any

import torch

from ....codegen.shape import Precision
from ...program.multiplier import Multiplier
from .multiplier import EXACT, ROUNDED


def rounds(dtype: torch.dtype, precision: Precision) -> bool:
    """Whether the products of a call may round their factors to TF32.

    Args:
        dtype: of the factors; only float32 has the choice.
        precision: the caller's. None follows `torch.backends.cudnn.rnn.fp32_precision`, as
            `nn.LSTM` does: TF32 unless the user says otherwise. That flag follows the older
            `torch.backends.cudnn.allow_tf32`, which raises an error once a new flag is set.
    """
    if dtype != torch.float32:
        return False
    if precision is None:
        flags: Any = torch.backends.cudnn.rnn
        return bool(flags.fp32_precision == "tf32")
    return precision == "tf32"


def multiplier(dtype: torch.dtype, tf32: bool) -> Multiplier:
    """What multiplies tensors of a dtype.

    Args:
        dtype: of the factors.
        tf32: whether factors of float32 may be rounded to TF32.
    """
    return ROUNDED if tf32 and dtype == torch.float32 else EXACT
