"""Mirrors of the structs that launches pass by value: templates/cuda/lib."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from torch import Tensor

from ...codegen.shape import Direction
from ..call.facts import Counts
from ..call.tensors import strides_of_unweighted

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64


def structure(name: str, *given: tuple[str, Any]) -> type[ctypes.Structure]:
    """Return a struct with such fields, by their names and types."""
    make: Any = type
    found: type[ctypes.Structure] = make(name, (ctypes.Structure,), {"_fields_": given})
    return found


def fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Return a field of one type for each of some names."""
    return [(name, kind) for name in names.split()]


# What both directions begin with: the sizes, where a launch begins, and how long a block waits.
_SIZES = fields(NUMBER, "steps batch heads dim first_tile first_head watchdog")


def mask_arguments(states: int) -> type[ctypes.Structure]:
    """Return the mirror of `MaskArguments` for a cell with that many states."""
    return structure(
        "MaskArguments",
        *fields(POINTER, "restarts longest order"),
        *fields(NUMBER * states, "reset_time reset_row"),
        ("reset_to", POINTER * states),
    )


def _unweighted(count: int) -> list[tuple[str, type[ctypes.Structure]]]:
    """Return the field of the mirror of `UnweightedArguments`, of a cell with inputs."""
    more = ("tensor", POINTER * count), *fields(NUMBER * count, "time row head unit")
    return [("unweighted", structure("UnweightedArguments", *more))] if count else []


def unweighted_fields(tensors: Sequence[Tensor]) -> tuple[int | Tensor, ...]:
    """Return the fields of `UnweightedArguments` in order, from `ScanInputs.unweighted`."""
    strides = zip(*map(strides_of_unweighted, tensors), strict=True)
    return (*tensors, *(stride for axis in strides for stride in axis))


def arguments_of(direction: Direction, counts: Counts, masked: bool) -> type[ctypes.Structure]:
    """Return the mirror of what the kernels of a direction take, of a cell with such counts."""
    mirror = forward_arguments if direction == "forward" else backward_arguments
    return mirror(counts.states, counts.params, masked, counts.unweighted)


@lru_cache(maxsize=64)
def forward_arguments(
    states: int, params: int, masked: bool, unweighted: int
) -> type[ctypes.Structure]:
    """Return the mirror of `ForwardArguments` for so many states, params and inputs of a cell."""
    return structure(
        "ForwardArguments",
        *_SIZES,
        *fields(NUMBER, "wx_time wx_row"),
        *fields(POINTER, "wx R R_diag bias"),
        ("params", POINTER * max(params, 1)),
        *fields(POINTER * states, "initial_states states last"),
        ("saved", POINTER),
        *_unweighted(unweighted),
        *([("masks", mask_arguments(states))] if masked else ()),
    )


@lru_cache(maxsize=64)
def backward_arguments(
    states: int, params: int, masked: bool, unweighted: int
) -> type[ctypes.Structure]:
    """Return the mirror of `BackwardArguments` for so many states, params and inputs of a cell."""
    each_state = POINTER * states
    return structure(
        "BackwardArguments",
        *_SIZES,
        *fields(NUMBER * states, "d_states_time d_states_row"),
        *fields(POINTER, "R R_diag"),
        ("params", POINTER * max(params, 1)),
        *fields(each_state, "initial_states states"),
        ("saved", POINTER),
        *fields(each_state, "d_states d_last"),
        *fields(POINTER, "d_wx d_gates_no_input"),
        ("d_initial_states", each_state),
        ("sums", POINTER),
        *_unweighted(unweighted),
        *([("masks", mask_arguments(states)), ("d_reset_to", each_state)] if masked else ()),
    )


def workspace_struct(states: int, sources: int) -> type[ctypes.Structure]:
    """Return the mirror of `Workspace` for a cell with that many states and sources."""
    return structure(
        "Workspace",
        *fields(ctypes.c_uint32, "batch heads dim"),
        *fields(POINTER, "arguments first_step"),
        ("states", POINTER * states),
        *fields(POINTER * max(sources, 1), "factors products"),
        *fields(POINTER, "sums totals"),
    )


def init_args_struct(
    arguments: type[ctypes.Structure], workspace: type[ctypes.Structure]
) -> type[ctypes.Structure]:
    """Return the mirror of `InitArgs`."""
    return structure("InitArgs", ("arguments", arguments), ("workspace", workspace))


def step_args_struct(workspace: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return the mirror of `StepArgs`."""
    return structure("StepArgs", ("workspace", workspace), ("step_idx", NUMBER))


@lru_cache(maxsize=64)
def grid_struct(arguments: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return the mirror of `GridArguments`."""
    more = *fields(POINTER, "exchange streamed"), ("first_group", NUMBER)
    return structure("GridArguments", ("arguments", arguments), *more)


@lru_cache(maxsize=64)
def layer_struct(arguments: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return the mirror of the arguments of a wavefront's layer, with `HandoverArguments`."""
    more = *fields(POINTER, "ready done started"), *fields(NUMBER, "chunk layer")
    return structure("LayerArguments", ("arguments", arguments), *more)


def pointer(tensor: Tensor | None) -> int | None:
    """Return a tensor's address; None if it is missing or empty."""
    return None if tensor is None or not tensor.numel() else tensor.data_ptr()


def pointers(tensors: Sequence[Tensor | None]) -> Any:
    """Return the tensors' addresses; at least one, since C has no empty arrays."""
    return (ctypes.c_void_p * max(len(tensors), 1))(*(pointer(t) for t in tensors))
