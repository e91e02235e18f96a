"""Argument validation for the inputs of a cell that no weight multiplies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.errors import kind_of
from ...errors import TensorError
from .tensor import check_same, check_strided, check_tensor, shape_error

# How many bits of a number a dtype of two bytes keeps.
_BITS = {torch.bfloat16: 8, torch.float16: 11}


def check_names_of_inputs(cell: CellSpec, inputs: Any) -> None:
    """Check that `inputs` has the names of the cell's inputs, with or without those drawn."""
    names = [i.name for i in cell.inputs]
    drawn = list(cell.drawn)
    given = {} if inputs is None else inputs
    if isinstance(given, Mapping) and set(names) - set(drawn) <= set(given) <= set(names):
        return
    found = str(list(given)) if isinstance(given, Mapping) else kind_of(given)
    if not names:
        raise TensorError("inputs", found, f"none: {cell.name} has no Input", "inputs=None")
    passed = [name for name in names if name not in drawn]
    each = ", ".join(f"{name!r}: …" for name in passed or drawn)
    wanted = f"a dict with a tensor for each of {passed}" if passed else "a dict"
    wanted += f", with or without the drawn {drawn}" if drawn else ""
    raise TensorError("inputs", found, wanted, f"inputs={{{each}}}")


def unweighted_in_order(cell: CellSpec, inputs: Any, wx: Any) -> tuple[Tensor, ...]:
    """Return the argument `inputs` of `rnnc.scan` in the cell's order, each with four axes."""
    check_names_of_inputs(cell, inputs)
    if not cell.inputs:
        return ()
    full, names = tuple(wx.shape[:4]), [i.name for i in cell.inputs]
    axes = "(B, T)", "(B, T, N, D)"
    return tuple([_with_axes(name, inputs[name], full, *axes, wx) for name in names])


def packed_inputs_in_order(cell: CellSpec, inputs: Any, wx: Tensor) -> dict[str, Tensor]:
    """Return `inputs` of `rnnc.scan_packed` in the cell's order, each with three axes."""
    check_names_of_inputs(cell, inputs)
    full = tuple(wx.shape[:3])
    names = [i.name for i in cell.inputs if inputs is not None and i.name in inputs]
    return {n: _with_axes(n, inputs[n], full, "(total,)", "(total, N, D)", wx) for n in names}


def _with_axes(
    name: str, tensor: Any, full: tuple[int, ...], rows: str, axes: str, like: Tensor
) -> Tensor:
    """Return an input with all axes of a call, of which some may have the size 1."""
    name, count = f"inputs[{name!r}]", len(full)
    wanted = f"{full[:-2]}, {rows}, or what broadcasts to {full}, {axes}"
    check_tensor(name, tensor, wanted)
    check_strided(name, tensor)
    shape = tuple(tensor.shape)
    missing = (1,) * (count - len(shape))
    found: Tensor
    if shape == full[:-2]:
        found = tensor.view(*shape, 1, 1)
    elif len(shape) <= count and spreads_over((*missing, *shape), full):
        found = tensor.view(*missing, *shape)
    else:
        write = f"{name} of the shape {full[:-2]}, for one value per row and step"
        raise shape_error(name, tensor, wanted, write)
    check_kind_of_input(name, tensor, "wx", like)
    return found


def spreads_over(shape: Sequence[int], full: Sequence[int]) -> bool:
    """Return True if a tensor has the sizes of another, or 1 in their place."""
    return len(shape) == len(full) and all(
        own == 1 or own == size  # as torch.compile traces sizes that it does not know
        for own, size in zip(shape, full, strict=True)
    )


def check_kind_of_input(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Check that an input has the device of `other` and, except under autocast, its dtype."""
    bits = _BITS.get(other.dtype)
    if tensor.dtype == torch.float32 and bits and not torch.is_autocast_enabled(other.device.type):
        raise TensorError(
            name,
            f"dtype {tensor.dtype}",
            f"{other.dtype}, the dtype of {other_name}: kernels of two bytes read all values so",
            f"{name}.to({other.dtype}), which keeps {bits} bits; docs/language.md says how to pass"
            " more of a time stamp",
        )
    check_same(name, tensor, other_name, other)


def check_unweighted(cell: CellSpec, unweighted: Sequence[Any], wx: Tensor) -> None:
    """Check inputs with four axes, which kernels read by their address; wx is checked already."""
    if len(unweighted) != len(cell.inputs):
        found, wanted = f"{len(unweighted)} of them", f"{len(cell.inputs)} for {cell.name}"
        raise TensorError("inputs", found, wanted, "a tensor for each Input of the cell")
    full = tuple(wx.shape[:4])
    for spec, tensor in zip(cell.inputs, unweighted, strict=True):
        name, wanted = f"inputs[{spec.name!r}]", f"{full}, with 1 in place of a size"
        check_tensor(name, tensor, wanted)
        if not spreads_over(tensor.shape, full):
            raise shape_error(name, tensor, wanted, f"{name} of four axes")
        check_kind_of_input(name, tensor, "wx", wx)
