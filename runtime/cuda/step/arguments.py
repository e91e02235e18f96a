"""Mirrors of the structs that a single step's kernels take: templates/cuda/lib/kernels/step."""

from __future__ import annotations

import ctypes

_SIZES = [(name, ctypes.c_int64) for name in ("batch", "heads", "dim")]


def forward_step_struct(states: int, params: int) -> type[ctypes.Structure]:
    """Return the mirror of `ForwardStepArguments` for a cell with so many states and params."""
    each_state, each_param = ctypes.c_void_p * states, ctypes.c_void_p * max(params, 1)
    read = ("x", "W", "R", "x_products", "h_products", "R_diag", "bias")

    class ForwardStepArguments(ctypes.Structure):
        _fields_ = [
            *_SIZES,
            ("input", ctypes.c_int64),
            *((name, ctypes.c_void_p) for name in read),
            ("params", each_param),
            ("before", each_state),
            ("after", each_state),
            ("output", ctypes.c_void_p),
            ("saved", ctypes.c_void_p),
        ]

    return ForwardStepArguments


def backward_step_struct(states: int, params: int) -> type[ctypes.Structure]:
    """Return the mirror of `BackwardStepArguments` for a cell with so many states and params."""
    each_state, each_param = ctypes.c_void_p * states, ctypes.c_void_p * max(params, 1)

    class BackwardStepArguments(ctypes.Structure):
        _fields_ = [
            *_SIZES,
            ("R_diag", ctypes.c_void_p),
            ("params", each_param),
            ("before", each_state),
            ("after", each_state),
            ("saved", ctypes.c_void_p),
            ("d_output", ctypes.c_void_p),
            ("d_after", each_state),
            ("d_inputs", ctypes.c_void_p),
            ("d_pairs", ctypes.c_void_p),
            ("d_before", each_state),
            ("sums", ctypes.c_void_p),
            ("input", ctypes.c_int64),
            *((name, ctypes.c_void_p) for name in ("x", "W", "R", "d_x", "d_W", "d_R")),
            ("d_weights", ctypes.c_void_p),
            ("d_states", each_state),
        ]

    return BackwardStepArguments
