"""Mirrors of the structs that launches pass by value: templates/cuda/lib."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.shape import Direction
from ..call.facts import facts_of
from ..call.tensors import SomeTensors, strides_of_unweighted

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64
WORD = 8  # bytes of either


def structure(name: str, *given: tuple[str, Any]) -> type[ctypes.Structure]:
    """Return a struct with such fields; `addresses` are its words that are, with their names."""
    make: Any = type
    found: Any = make(name, (ctypes.Structure,), {"_fields_": given})
    found.addresses = tuple(_addresses(found))
    return found  # type: ignore[no-any-return]


def _addresses(kind: Any, first: int = 0, name: str = "") -> Iterator[tuple[int, str]]:
    """Yield the addresses of a type from a word on; `name` is that of the field that holds it."""
    if kind is POINTER:
        yield first, name
    elif issubclass(kind, ctypes.Array):
        words = ctypes.sizeof(kind._type_) // WORD
        for i in range(kind._length_):
            yield from _addresses(kind._type_, first + i * words, f"{name}[{i}]")
    elif issubclass(kind, ctypes.Structure):
        for own, each in kind._fields_:
            place = first + getattr(kind, own).offset // WORD
            yield from _addresses(each, place, f"{name}.{own}" if name.endswith("]") else own)


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


_BEHIND = {
    "GridArguments": [*fields(POINTER, "exchange streamed"), ("first_group", NUMBER)],
    "ScanArguments": fields(POINTER, "records"),
    "LayerArguments": [*fields(POINTER, "ready done started"), *fields(NUMBER, "chunk layer")],
}


@lru_cache(maxsize=512)
def arguments_of(
    cell: CellSpec, direction: Direction, masked: bool, again: bool
) -> type[ctypes.Structure]:
    """Return the mirror of a direction's arguments.

    Those of a cell with stages end with the address of saved statistics. Those of a backward that
    computes gates `again` end with their inputs.
    """
    counts, staged = facts_of(cell).counts, cell.has_stages
    states, params, unweighted = counts.states, counts.params, counts.unweighted
    last = fields(POINTER, "statistics") if staged else []
    if again:
        last = [*fields(NUMBER, "wx_time wx_row"), *fields(POINTER, "wx bias")]
    each, masks = POINTER * states, [("masks", mask_arguments(states))] if masked else []
    weights = ("params", POINTER * max(params, 1))
    if direction == "forward":
        own = structure(
            "ForwardArguments",
            *_SIZES,
            *fields(NUMBER, "wx_time wx_row"),
            *fields(POINTER, "wx R R_diag bias"),
            weights,
            *fields(each, "initial_states states last"),
            ("saved", POINTER),
            *_unweighted(unweighted),
            *masks,
            *last,
        )
    else:
        own = structure(
            "BackwardArguments",
            *_SIZES,
            *fields(NUMBER * states, "d_states_time d_states_row"),
            *fields(POINTER, "R R_diag"),
            weights,
            *fields(each, "initial_states states"),
            ("saved", POINTER),
            *fields(each, "d_states d_last"),
            *fields(POINTER, "d_wx d_gates_no_input"),
            ("d_initial_states", each),
            ("sums", POINTER),
            *_unweighted(unweighted),
            *masks,
            *([("d_reset_to", each)] if masked else ()),
            *last,
        )
    found: Any = own
    found.around = {
        name: structure(name, ("arguments", own), *behind) for name, behind in _BEHIND.items()
    }
    if staged:
        # `StagedForwardArguments` derives from what has the handover: its own fields come last.
        plain = structure(own.__name__, *found._fields_[:-1])
        found.around["LayerArguments"] = structure(
            "LayerArguments", ("arguments", plain), *_BEHIND["LayerArguments"], *last
        )
    return own


def workspace_struct(cell: CellSpec, sources: int) -> type[ctypes.Structure]:
    """Return the mirror of `Workspace`, or of `StagedWorkspace` for a cell with stages."""
    return structure(
        "Workspace",
        *fields(ctypes.c_uint32, "batch heads dim"),
        *fields(POINTER, "arguments first_step"),
        ("states", POINTER * facts_of(cell).counts.states),
        *fields(POINTER * max(sources, 1), "factors products"),
        *fields(POINTER, "sums totals"),
        *(fields(POINTER, "values numbers") if cell.has_stages else ()),
    )


def init_args_struct(
    arguments: type[ctypes.Structure], workspace: type[ctypes.Structure]
) -> type[ctypes.Structure]:
    """Return the mirror of `InitArgs`."""
    return structure("InitArgs", ("arguments", arguments), ("workspace", workspace))


def step_args_struct(workspace: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return the mirror of `StepArgs`."""
    return structure("StepArgs", ("workspace", workspace), ("step_idx", NUMBER))


# What lies behind the arguments of a direction.


def struct_around(name: str, arguments: Any) -> type[ctypes.Structure]:
    """Return the mirror of `GridArguments`, or of the arguments of a wavefront's layer."""
    return arguments.around[name]  # type: ignore[no-any-return]


def with_handover(arguments: ctypes.Structure, *handover: int | None) -> ctypes.Structure:
    """Return a direction's arguments with those of `HandoverArguments`, of a wavefront's layer."""
    kind: Any = struct_around("LayerArguments", type(arguments))
    (_, own), *behind = kind._fields_
    last = [getattr(arguments, name) for name, _ in behind[len(handover) :]]
    found: ctypes.Structure = kind(own.from_buffer(arguments), *handover, *last)
    return found


def pointer(tensor: Tensor | None) -> int | None:
    """Return a tensor's address; None if it is missing or empty."""
    return None if tensor is None or not tensor.numel() else tensor.data_ptr()


def pointers(tensors: SomeTensors) -> Any:
    """Return the tensors' addresses; at least one, since C has no empty arrays."""
    return (ctypes.c_void_p * max(len(tensors), 1))(*(pointer(t) for t in tensors))
