"""Mirrors of the structs that the C++ kernels take: templates/cpu/lib."""

from __future__ import annotations

import ctypes
from functools import lru_cache


class Sizes(ctypes.Structure):
    """Mirrors `Sizes` in templates/cpu/lib/layout.h."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("steps", "batch", "heads", "dim", "tile_rows", "threads")
    ]


@lru_cache(maxsize=64)
def forward_arguments(states: int) -> type[ctypes.Structure]:
    """Mirrors `ForwardArguments`; its length depends on the number of states."""
    many = ctypes.c_void_p * states

    class ForwardArguments(ctypes.Structure):
        _fields_ = [
            ("sizes", Sizes),
            ("wx_strides", ctypes.c_int64 * 5),
            *((name, ctypes.c_void_p) for name in ("wx", "R", "R_diag", "b", "params")),
            *((name, many) for name in ("initial", "states", "last")),
            ("kept", ctypes.c_void_p),
        ]

    return ForwardArguments


@lru_cache(maxsize=64)
def backward_arguments(states: int) -> type[ctypes.Structure]:
    """Mirrors `BackwardArguments`."""
    many = ctypes.c_void_p * states

    class BackwardArguments(ctypes.Structure):
        _fields_ = [
            ("sizes", Sizes),
            *((name, ctypes.c_void_p) for name in ("R", "R_diag", "params")),
            *((name, many) for name in ("initial", "states")),
            ("kept", ctypes.c_void_p),
            *((name, many) for name in ("d_states", "d_last")),
            ("d_gates", ctypes.c_void_p),
            ("d_initial", many),
            *((name, ctypes.c_void_p) for name in ("d_bias", "d_params", "d_diagonal")),
        ]

    return BackwardArguments
