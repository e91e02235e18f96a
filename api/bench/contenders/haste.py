"""Haste's LSTM and GRU: a product of cuBLAS and a kernel per step, queued from C++.

`benchmarks/peers/haste.py` of rnnc's repository builds it; no package index has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..inputs import DTYPES, Call, Inputs
from ..rows import Row
from .contender import Contender
from .packages import package

_DTYPES = {"lstm": ("float32",), "gru": ("float32", "float16")}


def haste_layers(row: Row, dtype: str) -> Iterator[Contender]:
    """The layer of a row's cell, in the dtypes that it has; with several heads, one head alone.

    Args:
        row: the sizes.
        dtype: a key of `DTYPES`.
    """
    if dtype in _DTYPES.get(row.cell, ()):
        note = "" if row.heads == 1 else f"one head of {row.head_dim} only"
        yield Contender("Haste", dtype, False, "with input GEMM", _prepare, note=note)


def haste_layer(cell: str, size: int, device: str, dtype: str) -> Any:
    """Haste's module with as many features as units.

    Args:
        cell: "lstm" or "gru".
        size: units.
        device: "cpu" or "cuda".
        dtype: a key of `DTYPES`.

    Raises:
        BenchError: Haste cannot be imported, or there is no GPU.
    """
    build = "python benchmarks/peers/haste.py in rnnc's repository"
    haste = package("haste_pytorch", "Haste", build, device)
    layer = {"lstm": haste.LSTM, "gru": haste.GRU}[cell](size, size)
    return layer.to(device, DTYPES[dtype])


def _prepare(inputs: Inputs) -> Call:
    row = inputs.row
    layer = haste_layer(row.cell, row.head_dim, inputs.device, inputs.dtype)
    x = inputs.draw(row.steps, row.batch, row.head_dim, scale=1)
    seed = inputs.d_h[:, :, 0].contiguous()

    def run() -> Tensor:
        # It saves what a backward needs only in training mode.
        layer.training = torch.is_grad_enabled()
        return layer(x)[0]  # type: ignore[no-any-return]

    return Call(run, seed, [x, *layer.parameters()])
