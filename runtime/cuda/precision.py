"""Whether torch lets float32 products round to tf32: the one place that reads torch's flags."""

from __future__ import annotations

import torch


def torch_products_round() -> bool:
    """Whether torch's own products round factors of float32 to TF32 now."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def tf32_allowed(dtype: torch.dtype) -> bool:
    """Whether products of a dtype may round their factors to tf32, as torch's products would now.

    torch has old flags (`torch.backends.cuda.matmul.allow_tf32`,
    `torch.set_float32_matmul_precision`) and new ones (`torch.backends.cuda.matmul.fp32_precision`,
    which defaults to `torch.backends.fp32_precision`). The old flags raise an error once a new one
    is set. The new flag never does, and follows both.

    Args:
        dtype: of the factors; only float32 has the choice.

    Returns:
        False by default: products of float32 then have float32 accuracy.
    """
    if dtype != torch.float32:
        return False
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")
