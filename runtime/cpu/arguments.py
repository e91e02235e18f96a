"""Calls of the C++ kernels, with the structs that they take: templates/cpu/lib/layout.h and step.h.

Each field of these structs is an integer, a pointer or a double, of eight bytes. An array of them
is filled in a tenth of the time that a `ctypes.Structure` takes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.masks import Masks, strides_of_reset_value
from ..call.tensors import strides_of_unweighted
from ..program.ops import Field, Native, Running
from ..program.recorder import issue, refuse_recording


class Sizes(NamedTuple):
    """Mirrors `Sizes`."""

    steps: int
    batch: int
    heads: int
    dim: int
    tile_rows: int
    part_units: int
    threads: int


_NO_STREAM = Running(0)


def run(function: Callable[[bytes], object], *fields: Field) -> None:
    """Call a function of a library by a `Native`. The tensors live until it returns."""
    issue(Native(function, fields), _NO_STREAM)


def pack(integers: Sequence[int], doubles: Sequence[float], others: Sequence[int]) -> bytes:
    """Return a struct of a single step, which is never recorded: in half the time of a `Native`."""
    refuse_recording()
    packing = _packing(len(integers), len(doubles), len(others))
    return packing.pack(*integers, *doubles, *others)


@lru_cache(maxsize=1024)
def _packing(integers: int, doubles: int, others: int) -> struct.Struct:
    return struct.Struct(f"={integers}q{doubles}d{others}q")


def address(tensor: Tensor | None) -> int:
    """Return the address of a tensor's first element; null for None."""
    return 0 if tensor is None else tensor.data_ptr()


def addresses(tensors: Iterable[Tensor | None]) -> list[int]:
    """Return the address of each tensor's first element; null for None."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def unweighted_fields(tensors: Sequence[Tensor]) -> list[Field]:
    """Return the fields of `UnweightedArguments`, in its order; none for a cell without inputs."""
    strides = [stride for tensor in tensors for stride in strides_of_unweighted(tensor)]
    return [*tensors, *strides]


def reset_values(cell: CellSpec, masks: Masks | None, like: Tensor) -> list[Tensor]:
    """Return the value of each state after a reset, with adjacent units; none without masks."""
    if masks is None:
        return []
    if masks.reset_to is None:
        return [like.new_full(like.shape[1:], state.init) for state in cell.states]
    return [t if t.stride(-1) == 1 else t.contiguous() for t in masks.reset_to]


def mask_fields(
    masks: Masks | None, values: Sequence[Tensor], d_values: Sequence[Tensor] | None = None
) -> list[Field]:
    """Return the fields of `MaskArguments`; a backward adds to `d_values`."""
    if masks is None:
        return []
    strides = [strides_of_reset_value(value) for value in values]
    none: list[Field] = [None] * len(values)
    return [
        masks.steps,
        *values,
        *[each[axis] for axis in range(3) for each in strides],
        *(d_values or none),
    ]
