"""Mirrors of the structs that a single step's kernels take: templates/cuda/lib/kernels/step."""

from __future__ import annotations

import ctypes

from ..arguments import NUMBER, POINTER, fields, structure

_SIZES = fields(NUMBER, "batch heads dim")


def forward_step_struct(states: int, params: int) -> type[ctypes.Structure]:
    """Return the mirror of `ForwardStepArguments` for a cell with so many states and params."""
    return structure(
        "ForwardStepArguments",
        *_SIZES,
        ("input", NUMBER),
        *fields(POINTER, "x W R x_products h_products R_diag bias"),
        ("params", POINTER * max(params, 1)),
        *fields(POINTER * states, "before after"),
        *fields(POINTER, "output saved"),
    )


def backward_step_struct(states: int, params: int) -> type[ctypes.Structure]:
    """Return the mirror of `BackwardStepArguments` for a cell with so many states and params."""
    each_state = POINTER * states
    return structure(
        "BackwardStepArguments",
        *_SIZES,
        ("R_diag", POINTER),
        ("params", POINTER * max(params, 1)),
        *fields(each_state, "before after"),
        *fields(POINTER, "saved d_output"),
        ("d_after", each_state),
        *fields(POINTER, "d_inputs d_pairs"),
        ("d_before", each_state),
        ("sums", POINTER),
        ("input", NUMBER),
        *fields(POINTER, "x W R d_x d_W d_R d_weights"),
        ("d_states", each_state),
    )
