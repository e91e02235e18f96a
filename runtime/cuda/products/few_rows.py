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
# With more rows, by bytes per number, the weights are read more often than the library reads them.
# 3 gates of 768 units and features, in us on an H100, this kernel and the library with weights put
# in order: bfloat16 16 rows 3.9 and 8.0, 48 rows 5.9 and 8.0, 64 rows 8.2 and 8.1; float32, in
# full, 16 rows 11.1 and 15.9, 32 rows 16.1 and 17.4, 48 rows 20.6 and 18.5.
MOST_ROWS = {2: 48, 4: 32}

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
    if not 0 < len(rows) <= MOST_ROWS[rows.itemsize] or not 0 < weight.numel() < 2**31:
        return False
    if not rows.is_contiguous() or weight.stride(3) != 1:
        return False
    places = rows.data_ptr() | weight.data_ptr()
    apart = math.gcd(rows.shape[1], *weight.stride()[:3]) * rows.element_size()
    return not (places | apart) % _WIDEST_ACCESS


def few_rows(rows: Tensor, weight: Tensor, tf32: bool) -> Tensor:
    """Return the products of rows with weights, (rows, N * D * Gx), that `takes_few_rows` takes.

    With `tf32`, factors of float32 may be rounded to TF32.
    """
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
    macros = {"to": TYPES[rows.dtype], "tf32": str(tf32 and rows.dtype == torch.float32).lower()}
    with on_device(rows.device):
        index = rows.device.index
        kernel = unit_kernel("few_rows", _THREADS, "rnnc_few_rows", index, **macros)
        kernel(grid, _FewRows.from_buffer(numbers))
    return to
