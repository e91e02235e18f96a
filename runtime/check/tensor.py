"""Checks of tensors: the type, shape, dtype, device and memory of one, and kinds of a call's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ...cellspec.cell import CellSpec
from ...cellspec.errors import kind_of
from ...errors import TensorError
from ..call.call import Tensors


def check_tensor(name: str, tensor: Any, wanted: str) -> None:
    """Check that an argument is a tensor. `wanted` is the required shape, for messages."""
    if isinstance(tensor, Tensor):
        return
    batch_first = ", batch_first=True" if wanted.startswith("(B, T") else ""
    found, wanted = kind_of(tensor), f"a tensor of {wanted}"
    if isinstance(tensor, PackedSequence):
        found += ": sequences of different lengths"
        wanted += ", and lengths=lengths beside it (docs/ragged.md)"
        write = f"{name}, lengths = torch.nn.utils.rnn.pad_packed_sequence({name}{batch_first})"
    elif tensor is None:
        found, write = "None", f"{name} = torch.randn(...) of that shape, or your data"
    else:
        write = f"torch.as_tensor({name})"
    raise TensorError(name, found, wanted, write)


def check_kind(
    name: str,
    tensor: Any,
    shape: tuple[int, ...] | None,
    dtypes: Collection[torch.dtype],
    wanted: str,
    advice: tuple[str, str],
) -> None:
    """Check that an argument is a tensor of a shape, None for any, and one of some dtypes.

    `advice` says how to make a tensor, and how to cast one.
    """
    make, cast = advice
    if not isinstance(tensor, Tensor):
        raise TensorError(name, kind_of(tensor), f"a tensor of {wanted}", make)
    if shape is not None and tuple(tensor.shape) != shape:
        raise shape_error(name, tensor, wanted, f"{name} of the shape {shape}")
    if tensor.dtype not in dtypes:
        raise TensorError(name, f"dtype {tensor.dtype}", wanted, cast)


def check_like(
    name: str,
    tensor: Any,
    shape: tuple[int, ...],
    axes: str,
    other_name: str,
    other: Tensor,
) -> None:
    """Check that an argument has a shape, of such axes, and another tensor's dtype and device."""
    if not isinstance(tensor, Tensor) or tuple(tensor.shape) != shape:
        wanted = f"{shape}, {axes}"
        check_tensor(name, tensor, wanted)
        raise shape_error(name, tensor, wanted, f"{name} of the shape {shape}")
    check_same(name, tensor, other_name, other)


def check_same(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Check that a tensor has another tensor's device and, except under autocast, its dtype."""
    if tensor.dtype != other.dtype and not torch.is_autocast_enabled(other.device.type):
        raise TensorError(
            name,
            f"dtype {tensor.dtype}",
            f"{other.dtype}, the dtype of {other_name}",
            f"{name}.to({other.dtype}), or torch.autocast for mixed precision",
        )
    check_device(name, tensor, other_name, other)


def check_device(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Check that a tensor has another tensor's device."""
    if tensor.device != other.device:
        raise TensorError(
            name,
            f"device {tensor.device}",
            f"{other.device}, the device of {other_name}",
            f"{name}.to({str(other.device)!r})",
        )


def check_strided(name: str, tensor: Tensor) -> None:
    """Refuse a sparse, nested or otherwise packed tensor, whose elements have no strides."""
    if tensor.is_nested:
        raise TensorError(
            name,
            "a nested tensor",
            "a tensor with one size per axis, and lengths= beside it (docs/ragged.md)",
            f"torch.nested.to_padded_tensor({name}, 0.0)",
        )
    if tensor.layout != torch.strided:
        raise TensorError(name, f"layout {tensor.layout}", "torch.strided", f"{name}.to_dense()")


def shape_error(name: str, tensor: Tensor, wanted: str, write: str) -> TensorError:
    """Return the error for a tensor with a wrong shape."""
    return TensorError(name, f"shape {tuple(tensor.shape)}", wanted, write)


def check_kinds(
    cell: CellSpec,
    tensors: Tensors,
    takes_wx: bool,
    computed: torch.dtype,
    known: Sequence[torch.dtype],
) -> None:
    """Check layouts and dtypes of tensors before kernels run, which compute in one of `known`."""
    x, first = tensors.x, "wx" if takes_wx else "x"
    names = ["W", "R", "b", "R_diag", *[f"params[{p.name!r}]" for p in cell.params]]
    named: list[tuple[str, Tensor | None]] = [(first, x)]
    named += [(names[i % len(names)], weight) for i, weight in enumerate(tensors.weights)]
    states = zip(cell.states, tensors.states, strict=bool(tensors.states))
    named += [(f"states[{state.name}]", value) for state, value in states]
    given = zip(cell.inputs, tensors.unweighted, strict=True)
    named += [(f"inputs[{spec.name!r}]", value) for spec, value in given]
    for name, tensor in named:
        if tensor is not None:
            check_strided(name, tensor)
            check_same(name, tensor, first, x)
    if computed not in known:
        raise TensorError(
            first,
            f"dtype {computed}",
            f"one of {', '.join(map(str, known))} on {x.device.type}",
            f"every tensor as .to({known[0]})",
        )
