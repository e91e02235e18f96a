"""Where torch's modules are faster than the kernels, by measurement: `convert` leaves them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# docs/nn.md has the measured table.
TABLE = "docs/nn.md#where-torch-is-faster"

# Units up to which torch's modules are faster on a CPU, as `benchmarks/cpu_nn.py` measures: its
# LSTM of one direction in float32, which oneDNN has as one operation, and its cells.
_SMALL_LSTM, _SMALL_CELL = 64, 256


def faster_by_torch(module: nn.Module, weight: Tensor) -> str | None:
    """Why a module is left to torch; None if the kernels are faster, or as fast.

    Args:
        module: of one of torch's classes.
        weight: a recurrent matrix of it.
    """
    device, double = weight.device.type, weight.dtype == torch.float64
    if device == "cuda" and double:
        return "float64 on a GPU, where cuDNN is faster"
    if device != "cpu":
        return None
    units = weight.shape[1]
    if isinstance(module, nn.RNNCellBase):
        small = units <= _SMALL_CELL
    else:
        lstm = isinstance(module, nn.LSTM) and not (double or module.bidirectional)
        small = lstm and units <= _SMALL_LSTM
    return f"{units} units on a CPU, where torch's module is faster" if small else None
