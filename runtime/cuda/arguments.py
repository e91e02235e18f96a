"""Mirrors of the structs that launches pass by value: templates/cuda/lib."""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

_WIDEST_ACCESS = 16  # bytes

# What both directions begin with: the sizes, where a launch begins, and how long a block waits.
_SIZES = [
    (name, ctypes.c_int64)
    for name in ("steps", "batch", "heads", "dim", "first_tile", "first_head", "watchdog")
]


@lru_cache(maxsize=64)
def mask_arguments(states: int) -> type[ctypes.Structure]:
    """Mirrors `MaskArguments` of a cell with that many states."""

    class MaskArguments(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_void_p) for name in ("steps", "longest")),
            ("reset_time", ctypes.c_int64 * states),
            ("reset_row", ctypes.c_int64 * states),
            ("reset_to", ctypes.c_void_p * states),
        ]

    return MaskArguments


def _masks(states: int) -> tuple[tuple[str, type[ctypes.Structure]]]:
    return (("masks", mask_arguments(states)),)


def forward_arguments(states: int, params: int, masked: bool = False) -> type[ctypes.Structure]:
    """Mirrors `ForwardArguments` of a cell with that many states and params."""
    return _forward_arguments(states, params, masked)


@lru_cache(maxsize=64)
def _forward_arguments(states: int, params: int, masked: bool) -> type[ctypes.Structure]:
    each_state, each_param = ctypes.c_void_p * states, ctypes.c_void_p * max(params, 1)

    class ForwardArguments(ctypes.Structure):
        _fields_ = [
            *_SIZES,
            ("wx_time", ctypes.c_int64),
            ("wx_row", ctypes.c_int64),
            *((name, ctypes.c_void_p) for name in ("wx", "R", "R_diag", "bias")),
            ("params", each_param),
            *((name, each_state) for name in ("initial_states", "states", "last")),
            ("saved", ctypes.c_void_p),
            *(_masks(states) if masked else ()),
        ]

    return ForwardArguments


def backward_arguments(states: int, params: int, masked: bool = False) -> type[ctypes.Structure]:
    """Mirrors `BackwardArguments` of a cell with that many states and params."""
    return _backward_arguments(states, params, masked)


@lru_cache(maxsize=64)
def _backward_arguments(states: int, params: int, masked: bool) -> type[ctypes.Structure]:
    each_state, each_param = ctypes.c_void_p * states, ctypes.c_void_p * max(params, 1)

    class BackwardArguments(ctypes.Structure):
        _fields_ = [
            *_SIZES,
            ("d_states_time", ctypes.c_int64 * states),
            ("d_states_row", ctypes.c_int64 * states),
            *((name, ctypes.c_void_p) for name in ("R", "R_diag")),
            ("params", each_param),
            *((name, each_state) for name in ("initial_states", "states")),
            ("saved", ctypes.c_void_p),
            *((name, each_state) for name in ("d_states", "d_last")),
            *((name, ctypes.c_void_p) for name in ("d_wx", "d_gates_no_input")),
            ("d_initial_states", each_state),
            ("sums", ctypes.c_void_p),
            *((*_masks(states), ("d_reset_to", each_state)) if masked else ()),
        ]

    return BackwardArguments


@lru_cache(maxsize=64)
def workspace_struct(states: int, sources: int) -> type[ctypes.Structure]:
    """Mirrors `Workspace` of a cell with that many states and sources."""
    each_source = ctypes.c_void_p * max(sources, 1)

    class Workspace(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_uint32) for name in ("batch", "heads", "dim")),
            ("arguments", ctypes.c_void_p),
            ("first_step", ctypes.c_void_p),
            ("states", ctypes.c_void_p * states),
            ("factors", each_source),
            ("products", each_source),
            ("sums", ctypes.c_void_p),
            ("totals", ctypes.c_void_p),
        ]

    return Workspace


@lru_cache(maxsize=64)
def init_args_struct(
    arguments: type[ctypes.Structure], workspace: type[ctypes.Structure]
) -> type[ctypes.Structure]:
    """Mirrors `InitArgs`."""

    class InitArgs(ctypes.Structure):
        _fields_ = [("arguments", arguments), ("workspace", workspace)]

    return InitArgs


@lru_cache(maxsize=64)
def step_args_struct(workspace: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Mirrors `StepArgs`."""

    class StepArgs(ctypes.Structure):
        _fields_ = [("workspace", workspace), ("step_idx", ctypes.c_int64)]

    return StepArgs


@lru_cache(maxsize=64)
def grid_struct(arguments: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Mirrors `GridArguments`."""

    class GridArguments(ctypes.Structure):
        _fields_ = [
            ("arguments", arguments),
            ("exchange", ctypes.c_void_p),
            ("streamed", ctypes.c_void_p),
            ("first_group", ctypes.c_int64),
        ]

    return GridArguments


def pointer(tensor: Tensor | None) -> int | None:
    """A tensor's address, or null."""
    return None if tensor is None or not tensor.numel() else tensor.data_ptr()


def pointers(tensors: Sequence[Tensor | None]) -> Any:
    """Their addresses; at least one, since C has no empty arrays."""
    return (ctypes.c_void_p * max(len(tensors), 1))(*(pointer(t) for t in tensors))


def filled(struct: type[ctypes.Structure], *values: int | Tensor | None) -> ctypes.Structure:
    """A struct of 64-bit fields, filled in their order at once: field by field takes as long as a
    launch.

    Args:
        struct: of `forward_arguments` or `backward_arguments`.
        values: a number or a tensor, whose address it is, for each field and each element of one.
    """
    numbers = array(
        "q", [v if isinstance(v, int) else 0 if v is None else v.data_ptr() for v in values]
    )
    found: Any = struct.from_buffer(numbers)
    found.tensors = values  # for as long as the struct has their addresses
    return found  # type: ignore[no-any-return]


def packed_or_none(tensor: Tensor | None) -> Tensor | None:
    """`packed` of a tensor that may be missing."""
    return None if tensor is None else packed(tensor)


def packed(tensor: Tensor) -> Tensor:
    """The tensor, contiguous and aligned for wide accesses; a copy if it is not."""
    if tensor.is_contiguous() and tensor.data_ptr() % _WIDEST_ACCESS == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def rows_packed(tensor: Tensor) -> Tensor:
    """The tensor, whose first two axes are rows and steps; a copy if the other axes are not
    contiguous, or a row is not aligned for wide accesses.
    """
    width = _WIDEST_ACCESS // tensor.element_size()
    packed = 1  # the stride of a contiguous axis
    for size, stride in zip(tensor.shape[:1:-1], tensor.stride()[:1:-1], strict=True):
        if size > 1 and stride != packed:
            return tensor.contiguous()
        packed *= size
    step = math.gcd(width, packed)
    outer = tensor.stride()[:2]
    if tensor.data_ptr() % _WIDEST_ACCESS or outer[0] % step or outer[1] % step:
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor
