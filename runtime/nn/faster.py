"""Where torch's modules are faster than the kernels, by measurement: `convert` leaves them."""

from __future__ import annotations

import torch
from torch import Tensor

# docs/nn.md has the measured table.
TABLE = "docs/nn.md#where-torch-is-faster"


def faster_by_torch(weight: Tensor) -> str | None:
    """Why a module is left to torch; None if the kernels are faster, or as fast.

    Args:
        weight: a recurrent matrix of the module.
    """
    if weight.device.type == "cuda" and weight.dtype == torch.float64:
        return "float64 on a GPU, where cuDNN is faster"
    return None
