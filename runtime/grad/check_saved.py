"""Checks of the tensors that a backward gets: those that autograd saved, and gradients.

Hooks on saved tensors (`torch.autograd.graph.saved_tensors_hooks`) may offload them, compress them
or return other tensors; kernels read them by their address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.errors import kind_of
from ...codegen.shape import Save
from ..call.call import backward_reads
from ..call.plain import all_plain, treats_itself
from ..call.tensors import Saved
from ..check.tensor import check_memory
from ..check.unweighted import spreads_over
from ..errors import TensorError
from ..targets.target import Target


class Sizes(NamedTuple):
    """T, B, N and D of a call, and the dtype and device of all its tensors."""

    steps: int
    batch: int
    heads: int
    dim: int
    dtype: torch.dtype
    device: torch.device


def check_saved(target: Target, cell: CellSpec, save: Save, sizes: Sizes, saved: Saved) -> Saved:
    """Check the saved tensors of a forward, and copy those that kernels cannot read in place.

    Each must have the shape, dtype and device that the forward left; else a `TensorError` is
    raised.
    """
    again = target.computes_gates_again(save)
    steps, batch, heads, dim, *_ = sizes
    plane, rows = (heads, dim), (batch, heads, dim)
    dense, diagonal = len(cell.dense_pairs), len(cell.diagonal_pairs)
    names = [s.name for s in cell.states]
    counts = (len(saved.params), len(saved.initial_states), len(saved.states))
    if counts != (len(cell.params), len(names), len(names)):
        raise TensorError(
            "the saved tensors",
            f"{counts} params, initial states and states",
            f"{(len(cell.params), len(names), len(names))} of them, for {cell.name}",
            "what rnnc::scan took and gave, unchanged",
        )

    def one(name: str, tensor: Any, *shape: int, wanted: bool = True) -> Any:
        return _checked(name, tensor, shape, sizes) if wanted or tensor is not None else None

    inputs = len(cell.input_gates)
    return Saved(
        wx=one("wx", saved.wx, batch, steps, *plane, inputs, wanted=again),
        R=one("R", saved.R, dense, *plane, dim, wanted=bool(dense)),
        b=one("b", saved.b, len(cell.bias_gates), *plane, wanted=False),
        initial_states=tuple(
            one(f"initial[{n}]", t, *rows) for n, t in zip(names, saved.initial_states, strict=True)
        ),
        R_diag=one("R_diag", saved.R_diag, diagonal, *plane, wanted=bool(diagonal)),
        params=tuple(
            one(f"params[{p.name!r}]", t, *plane)
            for p, t in zip(cell.params, saved.params, strict=True)
        ),
        states=tuple(
            # A state that the backward does not read may be empty.
            one(f"states[{n}]", t, steps if read or t.shape[:1] != (0,) else 0, *rows)
            for n, t, read in zip(names, saved.states, backward_reads(cell), strict=True)
        ),
        saved=one("kept", saved.saved, *target.saved_shape(cell, sizes[:4], True, save)),
        unweighted=_checked_unweighted(cell, saved.unweighted, sizes),
    )


def _checked_unweighted(cell: CellSpec, given: Sequence[Tensor], sizes: Sizes) -> Sequence[Tensor]:
    if len(given) != len(cell.inputs):
        wanted = f"{len(cell.inputs)} of them, for {cell.name}"
        write = "what rnnc::scan took, unchanged"
        raise TensorError("inputs of a backward", f"{len(given)} of them", wanted, write)
    steps, batch, *plane = sizes[:4]
    found = []
    for spec, tensor in zip(cell.inputs, given, strict=True):
        shape = tuple(getattr(tensor, "shape", ()))
        full = (batch, steps, *plane)
        allowed = shape if spreads_over(shape, full) else full
        found.append(_checked(f"inputs[{spec.name!r}]", tensor, allowed, sizes))
    return found


def _checked(name: str, tensor: Any, shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    return check_as_left(name, tensor, shape, sizes.dtype, sizes.device)


# The shape and dtype of a saved tensor; None where there was none.
SavedKind = tuple[torch.Size, torch.dtype] | None


def as_left(saved: Sequence[Any], kinds: Sequence[SavedKind], device: torch.device) -> list[Any]:
    """Return saved tensors as kernels can read them.

    Hooks on saved tensors may have returned others: a `TensorError` is raised for one that is not
    as the forward left it.
    """
    return [
        None if kind is None else check_as_left(f"saved tensor {i}", tensor, *kind, device=device)
        for i, (tensor, kind) in enumerate(zip(saved, kinds, strict=True))
    ]


def check_as_left(
    name: str, tensor: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return a tensor that is as the forward left it; a copy if kernels cannot read it in place.

    Any other tensor raises a `TensorError`, in which `name` is its name.
    """
    wanted = f"shape {tuple(shape)}, {dtype}, on {device}: what the forward left"
    found = _found(tensor, shape, dtype, device)
    if found is not None:
        raise TensorError(
            f"{name} of a backward",
            found,
            wanted,
            "saved_tensors_hooks whose unpack gives back what pack took",
        )
    assert isinstance(tensor, Tensor)
    if not torch._is_zerotensor(tensor):
        check_memory(name, tensor)
    if all_plain((tensor,)):
        return tensor
    return tensor.detach().as_subclass(Tensor).resolve_neg().clone()


def _found(
    tensor: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> str | None:
    """Return what is wrong with a tensor, for a message; None if nothing is."""
    if not isinstance(tensor, Tensor):
        return kind_of(tensor)
    if tensor.is_nested:
        return "a nested tensor"
    if tuple(tensor.shape) != tuple(shape):
        return f"shape {tuple(tensor.shape)}"
    if tensor.dtype != dtype:
        return f"dtype {tensor.dtype}"
    if tensor.device != device:
        return f"device {tensor.device}"
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}"
    if treats_itself(tensor):
        return kind_of(tensor)
    return None


def plain_gradients(gradients: Iterable[Tensor | None]) -> list[Tensor | None]:
    """Return incoming gradients, copied where kernels cannot read them in place."""
    return [g if g is None or all_plain((g,)) else g.resolve_neg().clone() for g in gradients]
