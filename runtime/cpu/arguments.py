"""The structs that the C++ kernels take, as bytes: templates/cpu/lib/layout.h and step.h.

Each field of these structs is an integer, a pointer or a double, of eight bytes. Bytes are packed
in a tenth of the time that a `ctypes.Structure` takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from struct import Struct
from typing import NamedTuple

from torch import Tensor

from ..call.tensors import strides_of_unweighted


class Sizes(NamedTuple):
    """Mirrors `Sizes`."""

    steps: int
    batch: int
    heads: int
    dim: int
    tile_rows: int
    part_units: int
    threads: int


def struct_of(*fields: int) -> bytes:
    """Return a filled struct. Fields are in the struct's order, with those of arrays in line."""
    return packing_of(len(fields)).pack(*fields)


@cache
def packing_of(integers: int, numbers: int = 0, others: int = 0) -> Struct:
    """Return the packing of a struct: integers and addresses, doubles, integers and addresses."""
    return Struct(f"={integers}q{numbers}d{others}q")


def address(tensor: Tensor | None) -> int:
    """Return the address of a tensor's first element; null for None."""
    return 0 if tensor is None else tensor.data_ptr()


def addresses(tensors: Iterable[Tensor | None]) -> list[int]:
    """Return the address of each tensor's first element; null for None."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def unweighted_fields(tensors: Iterable[Tensor]) -> list[int]:
    """Return the fields of `UnweightedArguments`, in its order; none for a cell without inputs."""
    strides = [stride for tensor in tensors for stride in strides_of_unweighted(tensor)]
    return addresses(tensors) + strides
