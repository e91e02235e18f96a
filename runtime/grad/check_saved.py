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
from ..call.masks import Masks
from ..call.plain import all_plain, treats_itself
from ..call.tensors import Saved
from ..check.masks import shapes_of_reset_values
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


def sizes_of(saved: Saved) -> Sizes:
    """Return the sizes of a call from its saved tensors; raise a `TensorError` without any."""
    first = saved.initial_states[0] if saved.initial_states else None
    if first is None or first.ndim != 3:
        found = "none" if first is None else f"shape {tuple(first.shape)}"
        raise TensorError("initial", found, "(B, N, D) of each state", "what rnnc::scan took")
    timed, axis = (saved.saved, 0) if saved.wx is None else (saved.wx, 1)
    if timed.ndim != 5:
        raise TensorError(
            "kept" if saved.wx is None else "wx",
            f"shape {tuple(timed.shape)}",
            "five axes, one of them the steps",
            "what rnnc::scan gave",
        )
    batch, heads, dim = first.shape
    return Sizes(timed.shape[axis], batch, heads, dim, first.dtype, first.device)


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
        masks=None if saved.masks is None else _checked_masks(saved.masks, sizes),
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


def _checked_masks(masks: Masks, sizes: Sizes) -> Masks:
    steps, batch, heads, dim, _, device = sizes
    shapes = shapes_of_reset_values(steps, batch, heads, dim)

    def value(tensor: Any) -> Tensor:
        shape = tuple(getattr(tensor, "shape", ()))
        return _checked("reset_to", tensor, shape if shape in shapes else shapes[0], sizes)

    longest = masks.longest
    if longest is not None:
        longest = check_as_left("longest", longest, (batch,), torch.int32, device)
    taken = check_as_left("steps", masks.steps, (steps, batch), torch.uint8, device)
    return Masks(taken, longest, masks.reset_to and tuple(map(value, masks.reset_to)))


def check_seeds(
    cell: CellSpec,
    sizes: Sizes,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
) -> None:
    """Check incoming gradients: of each state at all steps, (T, B, N, D), and last, (B, N, D)."""
    steps, batch, heads, dim, *_ = sizes
    for kind, given, shape in (
        ("d_states", d_states, (steps, batch, heads, dim)),
        ("d_last", d_last, (batch, heads, dim)),
    ):
        if len(given) != len(cell.states):
            raise TensorError(
                kind,
                f"{len(given)} of them",
                f"{len(cell.states)}, one for each state",
                f"{kind}=[None] * {len(cell.states)}, and the gradients that you have",
            )
        for spec, tensor in zip(cell.states, given, strict=True):
            if tensor is not None:
                _checked(f"{kind}[{spec.name}]", tensor, shape, sizes)


def _checked(name: str, tensor: Any, shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    return check_as_left(name, tensor, shape, sizes.dtype, sizes.device)


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
