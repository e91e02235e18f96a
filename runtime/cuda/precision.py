"""Whether torch lets float32 products round to tf32: the one place that reads torch's flags."""

from __future__ import annotations

import torch


def tf32_allowed(dtype: torch.dtype) -> bool:
    """Whether products of a dtype may round their factors to tf32, as torch's own would now.

    torch keeps the answer under old names (`torch.backends.cuda.matmul.allow_tf32`,
    `torch.set_float32_matmul_precision`) and new ones (`torch.backends.cuda.matmul.fp32_precision`,
    where "none" means what `torch.backends.fp32_precision` says). The old ones raise once a new one
    was set, the new one never does and knows of both.

    Args:
        dtype: of the factors; only float32 has the choice.

    Returns:
        False where nothing was set: products of float32 then keep their digits.
    """
    if dtype != torch.float32:
        return False
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")
