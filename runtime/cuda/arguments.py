"""Mirrors of the structs that launches pass by value: templates/cuda/lib."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from torch import Tensor

from ..call.tensors import strides_of_unweighted

_WIDEST_ACCESS = 16  # bytes

# What both directions begin with: the sizes, where a launch begins, and how long a block waits.
_SIZES = [
    (name, ctypes.c_int64)
    for name in ("steps", "batch", "heads", "dim", "first_tile", "first_head", "watchdog")
]


def mask_arguments(states: int) -> type[ctypes.Structure]:
    """Return the mirror of `MaskArguments` for a cell with that many states."""

    class MaskArguments(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_void_p) for name in ("restarts", "longest", "order")),
            ("reset_time", ctypes.c_int64 * states),
            ("reset_row", ctypes.c_int64 * states),
            ("reset_to", ctypes.c_void_p * states),
        ]

    return MaskArguments


def _masks(states: int) -> tuple[tuple[str, type[ctypes.Structure]]]:
    return (("masks", mask_arguments(states)),)


def forward_arguments(
    states: int, params: int, masked: bool = False, unweighted: int = 0
) -> type[ctypes.Structure]:
    """Return the mirror of `ForwardArguments` for so many states, params and inputs of a cell."""
    return _forward_arguments(states, params, masked, unweighted)


def _unweighted_arguments(count: int) -> type[ctypes.Structure]:
    """Return the mirror of `UnweightedArguments` for a cell with that many inputs."""

    class UnweightedArguments(ctypes.Structure):
        _fields_ = [
            ("tensor", ctypes.c_void_p * count),
            *((name, ctypes.c_int64 * count) for name in ("time", "row", "head", "unit")),
        ]

    return UnweightedArguments


def _unweighted(count: int) -> tuple[tuple[str, type[ctypes.Structure]], ...]:
    return (("unweighted", _unweighted_arguments(count)),) if count else ()


def unweighted_fields(tensors: Sequence[Tensor]) -> tuple[int | Tensor, ...]:
    """Return the fields of `UnweightedArguments` in order, from `ScanInputs.unweighted`."""
    strides = zip(*map(strides_of_unweighted, tensors), strict=True)
    return (*tensors, *(stride for axis in strides for stride in axis))


@lru_cache(maxsize=64)
def _forward_arguments(
    states: int, params: int, masked: bool, unweighted: int
) -> type[ctypes.Structure]:
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
            *_unweighted(unweighted),
            *(_masks(states) if masked else ()),
        ]

    return ForwardArguments


def backward_arguments(
    states: int, params: int, masked: bool = False, unweighted: int = 0
) -> type[ctypes.Structure]:
    """Return the mirror of `BackwardArguments` for so many states, params and inputs of a cell."""
    return _backward_arguments(states, params, masked, unweighted)


@lru_cache(maxsize=64)
def _backward_arguments(
    states: int, params: int, masked: bool, unweighted: int
) -> type[ctypes.Structure]:
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
            *_unweighted(unweighted),
            *((*_masks(states), ("d_reset_to", each_state)) if masked else ()),
        ]

    return BackwardArguments


@lru_cache(maxsize=64)
def workspace_struct(states: int, sources: int) -> type[ctypes.Structure]:
    """Return the mirror of `Workspace` for a cell with that many states and sources."""
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


def init_args_struct(
    arguments: type[ctypes.Structure], workspace: type[ctypes.Structure]
) -> type[ctypes.Structure]:
    """Return the mirror of `InitArgs`."""

    class InitArgs(ctypes.Structure):
        _fields_ = [("arguments", arguments), ("workspace", workspace)]

    return InitArgs


def step_args_struct(workspace: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return the mirror of `StepArgs`."""

    class StepArgs(ctypes.Structure):
        _fields_ = [("workspace", workspace), ("step_idx", ctypes.c_int64)]

    return StepArgs


@lru_cache(maxsize=64)
def grid_struct(arguments: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return the mirror of `GridArguments`."""

    class GridArguments(ctypes.Structure):
        _fields_ = [
            ("arguments", arguments),
            ("exchange", ctypes.c_void_p),
            ("streamed", ctypes.c_void_p),
            ("first_group", ctypes.c_int64),
        ]

    return GridArguments


def pointer(tensor: Tensor | None) -> int | None:
    """Return a tensor's address; None if it is missing or empty."""
    return None if tensor is None or not tensor.numel() else tensor.data_ptr()


def pointers(tensors: Sequence[Tensor | None]) -> Any:
    """Return the tensors' addresses; at least one, since C has no empty arrays."""
    return (ctypes.c_void_p * max(len(tensors), 1))(*(pointer(t) for t in tensors))
