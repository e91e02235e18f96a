"""Products of few rows with input weights as these lie, written in the order of wx by one launch.

The matrix library would need a launch more, which puts the weights or the results in order.
"""

from __future__ import annotations

import math
from array import array

import torch
from torch import Tensor

from ..arguments import NUMBER, POINTER, fields, structure
from ..driver.streams import on_device
from ..load import unit_kernel
from .rearrange import TYPES

# As in templates/cuda/few_rows.cu.
_THREADS, _COLUMNS, _ROWS, _WIDEST_ACCESS = 256, 16, 16, 16
# With more rows the weights are read more often than the library reads them.
MOST_ROWS = 32

# Mirror of `FewRows`.
_FewRows = structure(
    "FewRows",
    *fields(POINTER, "x W to"),
    *fields(NUMBER, "rows features columns gates dim of_gate of_head of_unit"),
)


def takes_few_rows(rows: Tensor, weight: Tensor) -> bool:
    """Return True if the kernel multiplies rows (rows, features) with weights (Gx, N, D, features).

    It takes no float64, and lines without gaps that begin at multiples of 16 bytes.
    """
    if not rows.is_cuda or rows.dtype not in TYPES or rows.dtype == torch.float64:
        return False
    if not 0 < len(rows) <= MOST_ROWS or not rows.is_contiguous() or weight.stride(3) != 1:
        return False
    if not weight.numel() or weight.numel() >= 2**31:
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
    numbers = array(
        "q",
        [
            *(rows.data_ptr(), weight.data_ptr(), to.data_ptr()),
            *(len(rows), features, columns, gates, dim, of_gate, of_head, of_unit),
        ],
    )
    grid = math.ceil(columns / _COLUMNS), math.ceil(len(rows) / _ROWS), 1
    index = rows.device.index
    with on_device(rows.device):
        kernel = unit_kernel("few_rows", _THREADS, "rnnc_few_rows", index, TYPES[rows.dtype])
        kernel(grid, _FewRows.from_buffer(numbers))
    return to
