"""Dtypes of torch, by the words that plans have for them."""

from __future__ import annotations

import torch

from ...codegen.shape import Dtype

# The dtypes in which a cell can be computed.
DTYPES: dict[torch.dtype, Dtype] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}
