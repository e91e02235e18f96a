"""Measured cases in which torch's modules are faster than the kernels: `convert` leaves them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# docs/nn.md has the measured table.
TABLE = "docs/nn.md#where-torch-is-faster"
# What the functions below look at.
DECIDED_ON = "class, directions, units, dtype and device, not by batch or steps"

# Units up to which torch's modules are faster on a CPU, as `benchmarks/cpu_users.py --nn` measures:
# its LSTM of one direction in float32, which oneDNN has as one operation, and its cells.
_SMALL_LSTM, _SMALL_CELL = 64, 256

# A projected LSTM, which oneDNN lacks. The kernels multiply by R' P, which has more elements than
# both. On a CPU they are faster up to so many units, and so many rows times units squared: without
# gradients and with them. By the same program, and by pairs at the bounds.
_PROJECTED = {False: (128, 2**16), True: (256, 2**19)}


def kernels_project(
    device: str, dtype: torch.dtype, units: int, rows: int, gradients: bool
) -> bool:
    """Return True if kernels are as fast as torch's module for a projected LSTM of such units."""
    if dtype == torch.float64:
        return False
    if device != "cpu":
        return True
    most_units, most = _PROJECTED[gradients]
    return units <= most_units and rows * units * units <= most


def faster_by_torch(module: nn.Module, weight: Tensor) -> str | None:
    """Return the reason why a module is left to torch; None if kernels are as fast or faster."""
    device, double = weight.device.type, weight.dtype == torch.float64
    if device == "cuda" and double:
        return "float64 on a GPU, where cuDNN is faster"
    if getattr(module, "proj_size", 0):
        return _projected_by_torch(device, weight.dtype, weight.shape[0] // 4)
    if device != "cpu":
        return None
    units = weight.shape[1]
    dtype = str(weight.dtype).removeprefix("torch.")
    if isinstance(module, nn.RNNCellBase):
        small, what = units <= _SMALL_CELL, f"a cell of {units} units"
    else:
        lstm = isinstance(module, nn.LSTM) and not (double or module.bidirectional)
        small, what = lstm and units <= _SMALL_LSTM, f"an LSTM of one direction, {units} units"
    return f"{what}, {dtype} on a CPU, where torch's module is faster" if small else None


def _projected_by_torch(device: str, dtype: torch.dtype, units: int) -> str | None:
    """Return the reason why torch keeps a projected LSTM for any batch; None if it does not."""
    if any(kernels_project(device, dtype, units, 1, gradients) for gradients in _PROJECTED):
        return None
    what = "float64" if dtype == torch.float64 else f"{units} units"
    return f"proj_size with {what} on a CPU, where torch's module is faster"
