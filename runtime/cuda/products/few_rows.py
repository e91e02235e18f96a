"""Products of few rows with input weights as these lie, written in the order of wx by one launch.

The matrix library would need a launch more, which puts the weights or the results in order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..arguments import NUMBER, POINTER, fields, structure
from ..driver.streams import on_device
from ..launch import filled
from ..load import unit_kernel
from .rearrange import TYPES

# As in templates/cuda/few_rows.cu. For more rows the kernel would read the weights several times.
# 3 gates of 768 and of 2,048 units and features, 16 rows, this kernel and the library with results
# put in order, in us on an H100: bfloat16 3.9 and 5.4, 7.8 and 9.2; float32 in TF32 5.4 and 9.6,
# 24.2 and 25.2.
_THREADS, _COLUMNS, MOST_ROWS, _WIDEST_ACCESS = 256, 16, 16, 16

# Mirror of `FewRows`.
_FewRows = structure(
    "FewRows",
    *fields(POINTER, "x W to"),
    *fields(NUMBER, "rows features columns gates dim of_gate of_head of_unit"),
)


def takes_few_rows(rows: Tensor, weight: Tensor, tf32: bool) -> bool:
    """Return True if the kernel multiplies rows (rows, features) with weights (Gx, N, D, features).

    It takes dtypes of two bytes, and float32 that may round to TF32; and lines without gaps that
    begin at multiples of 16 bytes.
    """
    if not rows.is_cuda or rows.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return False
    if rows.dtype == torch.float32 and not tf32:
        return False
    if not 0 < len(rows) <= MOST_ROWS or not 0 < weight.numel() < 2**31:
        return False
    if not rows.is_contiguous() or weight.stride(3) != 1:
        return False
    places = rows.data_ptr() | weight.data_ptr()
    apart = math.gcd(rows.shape[1], *weight.stride()[:3]) * rows.element_size()
    return not (places | apart) % _WIDEST_ACCESS


def few_rows(rows: Tensor, weight: Tensor) -> Tensor:
    """Return the products of rows with weights, (rows, N * D * Gx), that `takes_few_rows` takes."""
    gates, heads, dim, features = weight.shape
    columns = heads * dim * gates
    to = rows.new_empty(len(rows), columns)
    of_gate, of_head, of_unit, _ = weight.stride()
    sizes = len(rows), features, columns, gates, dim, of_gate, of_head, of_unit
    grid = math.ceil(columns / _COLUMNS), 1, 1
    index = rows.device.index
    with on_device(rows.device):
        kernel = unit_kernel("few_rows", _THREADS, "rnnc_few_rows", index, TYPES[rows.dtype])
        kernel(grid, filled(_FewRows, rows, weight, to, *sizes))
    return to
