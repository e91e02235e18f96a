"""Products of a layer's input with its weights, and their gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...codegen.shape import Precision
from ..call.requests import InputBackward
from ..program.multiplier import TORCH, product_added

# Fewer operations take longer in oneDNN, which prepares each call: 30 us on an EPYC.
_LARGE = 2**25
# What `torch.backends.mkldnn` asks, in a fifth of the time.
_torch: Any = torch._C


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """Return x W^T for x (..., features) and W (columns, features), without autograd.

    torch gives float32 products to MKL, which on processors of AMD has no kernels for AVX-512;
    oneDNN, with which torch runs `nn.LSTM`, has. On an EPYC of AMD one thread reaches 100 instead
    of 85 GFLOP/s for 256 features, 4 x 256 gates and 2,048 rows.
    """
    if 2 * x.numel() * weight.shape[0] < _LARGE or x.dtype != torch.float32 or not has_onednn():
        return F.linear(x, weight)
    found: Tensor = _linear_pointwise(x, weight, None, "none", [], "")
    return found


def rows_of(weight: Tensor) -> Tensor:
    """Return a weight (Gx, N, D, input) in the order of wx on the CPU, (N * Gx * D, input)."""
    gates, heads, dim, size = weight.shape
    if heads == 1:
        return weight.view(gates * dim, size) if weight.is_contiguous() else weight.flatten(0, 2)
    return weight.transpose(0, 1).reshape(heads * gates * dim, size)


def has_onednn() -> bool:
    """Return True if oneDNN may multiply, and multiplies float32 without rounding its factors."""
    if _linear_pointwise is None or not _torch._get_mkldnn_enabled():
        return False
    return _torch._get_fp32_precision_getter("mkldnn", "matmul") in ("none", "ieee")


def rounds(dtype: torch.dtype, precision: Precision) -> bool:
    """Return False: no product rounds factors of float32 to TF32 on a CPU."""
    return False


def settings_of_torch(_: torch.device) -> int:
    """Return a number for what a call on a CPU follows besides its tensors."""
    return 2 * torch.get_num_threads() + has_onednn()


def _find() -> Any:
    """Return the operator of torch, or None: builds without oneDNN do not have it."""
    flags: Any = torch.backends.mkldnn
    if not flags.is_available():
        return None
    try:
        return torch.ops.mkldnn._linear_pointwise
    except (AttributeError, RuntimeError):
        return None


_linear_pointwise = _find()


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Return the wx (B, T, N, D, Gx) of a module's input, by operations that autograd follows."""
    return _as_wx(F.linear(x, rows_of(weight)), weight)


def project_at(x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
    """Return the result of `project`, without autograd; `tf32` is False, as `rounds` says."""
    return _as_wx(linear(x, rows_of(weight)), weight)


def project_gradients(backward: InputBackward) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of `project`, of x and of the weight, by head."""
    d_wx, x, weight, wanted, _, d_x, _ = backward
    gates, heads, dim, size = weight.shape
    count = x.shape[0] * x.shape[1]
    d_rows = d_wx.permute(1, 0, 2, 4, 3).reshape(count, heads * gates * dim)
    d_W = None
    if wanted[0]:
        if d_x is None:
            d_x = linear(d_rows, rows_of(weight).t()).view(x.shape)
        else:
            product_added(TORCH, d_x, d_rows, rows_of(weight), x.shape)
    if wanted[1]:
        d_W = torch.mm(d_rows.t(), x.reshape(count, size))
        if heads == 1:
            return d_x, d_W.view(gates, 1, dim, size)
        d_W = d_W.view(heads, gates, dim, size).transpose(0, 1)
    return d_x, d_W


def _as_wx(rows: Tensor, weight: Tensor) -> Tensor:
    gates, heads, dim, _ = weight.shape
    return rows.view(*rows.shape[:2], heads, gates, dim).permute(1, 0, 2, 4, 3)
