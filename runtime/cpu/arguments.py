"""The structs that the C++ kernels take, as arrays: templates/cpu/lib/layout.h.

Each field of these structs is an integer or a pointer of eight bytes. One array of integers
therefore fills a struct in a fifth of the time that a `ctypes.Structure` takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

_KINDS: dict[int, type[ctypes.Array[ctypes.c_int64]]] = {}


class Sizes(NamedTuple):
    """Mirrors `Sizes`."""

    steps: int
    batch: int
    heads: int
    dim: int
    tile_rows: int
    part_units: int
    threads: int


def struct_of(*fields: int) -> ctypes.Array[ctypes.c_int64]:
    """A struct, filled.

    Args:
        fields: its integers and addresses in the struct's order, with those of arrays in line.
    """
    kind = _KINDS.get(len(fields))
    if kind is None:
        kind = _KINDS[len(fields)] = ctypes.c_int64 * len(fields)
    return kind(*fields)


def address(tensor: Tensor | None) -> int:
    """The address of a tensor's first element; null for None."""
    return 0 if tensor is None else tensor.data_ptr()


def addresses(tensors: Sequence[Tensor | None]) -> list[int]:
    """The address of each tensor's first element; null for None."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
