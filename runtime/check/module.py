"""Argument validation for `rnnc.RNN`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any, cast

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.errors import kind_of
from ...codegen.shape import MOST_COUNT
from ...errors import TensorError
from ..call.forms import WEIGHTS, check_params
from .scan import check_count, check_is_cell
from .tensor import check_like, check_same, check_strided, check_tensor, shape_error


def check_cell(cell: Any) -> CellSpec:
    """Return the cell of a module; none of its params has the name of one of the weights."""
    found = check_is_cell(cell)
    check_params(found, WEIGHTS, "rnnc.RNN")
    return found


def check_size(name: str, value: Any) -> int:
    """Return a size of a module: a whole number, from 1 to the most that kernels count."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TensorError(name, repr(value), "a whole number, at least 1", f"{name}=1")
    if value > MOST_COUNT:
        raise TensorError(
            name,
            str(value) if value < 10**30 else "a number of more than 30 digits",
            f"at most {MOST_COUNT}: kernels count in 32 bits",
            f"{name}=1",
        )
    return value


def check_heads(heads: Any, hidden_size: int) -> int:
    """Return the number of heads of a module, a whole number that divides the hidden size."""
    check_size("heads", heads)
    if hidden_size % heads:
        small = [n for n in range(1, isqrt(hidden_size) + 1) if hidden_size % n == 0]
        nearest = min(
            [*small, *(hidden_size // n for n in small)], key=lambda n: (abs(n - heads), n)
        )
        raise TensorError(
            "heads",
            f"{heads} with hidden_size={hidden_size}",
            "a divisor of hidden_size",
            f"heads={nearest}, or hidden_size={max(round(hidden_size / heads), 1) * heads}",
        )
    return cast(int, heads)


def check_module_dtype(dtype: Any) -> None:
    """Check that the dtype of a module's weights is a floating-point one."""
    used = torch.get_default_dtype() if dtype is None else dtype
    if not isinstance(used, torch.dtype) or not used.is_floating_point:
        raise TensorError("dtype", repr(dtype), "a floating-point dtype", "dtype=torch.float32")


def check_probability(name: str, value: Any) -> float:
    """Return an option that is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise TensorError(name, repr(value), "a probability", f"{name}=0.1")
    return float(value)


def check_input(
    x: Any, ranks: tuple[int, int], wanted: str, size: int, weight: Tensor | None
) -> None:
    """Check axes, dtype and device of a module's input; `weight` is one of its parameters."""
    wanted = f"{wanted} with input = {size}"
    check_tensor("x", x, wanted)
    if x.is_nested or x.layout != torch.strided:
        check_strided("x", x)
    if x.ndim not in ranks or x.shape[-1] != size:
        raise shape_error("x", x, wanted, f"x of the shape {wanted}")
    if weight is not None:
        doubles = [t.dtype == torch.float64 for t in (x, weight)]
        if doubles[0] != doubles[1] and torch.is_autocast_enabled(x.device.type):
            raise TensorError(
                "x",
                f"dtype {x.dtype}",
                f"{weight.dtype}, the dtype of the module: autocast leaves float64 alone",
                f"x.to({weight.dtype})",
            )
        check_same("x", x, "the module", weight)


def states_from(states: Any, hx: Any, count: int) -> Any:
    """Return the states, given as `states` or `hx`; a bare tensor is the only state of a cell."""
    if states is not None and hx is not None:
        raise TensorError("hx", "states and hx", "one of them: they are the same", "hx=None")
    given = states if hx is None else hx
    return (given,) if isinstance(given, Tensor) and count == 1 else given


def check_states(
    states: Any,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    axes: str,
    x: Tensor,
) -> None:
    """Check the initial states of a call: one for each name, of the dtype and device of x."""
    check_count(states, names)
    for name, state, shape in zip(names, states, shapes, strict=True):
        check_like(f"states[{name}]", state, shape, axes, "x", x)


def check_weight_of_module(
    name: str, weight: Any, shape: tuple[int, ...], device: torch.device | None
) -> Tensor:
    """Check the attribute of a module that holds a weight. `device` is that of the input."""
    wanted = f"a tensor of {shape}, as in the constructor"
    if not isinstance(weight, Tensor):
        found = "nothing" if weight is None else kind_of(weight)
        write = f"module.{name} = torch.nn.Parameter(torch.zeros{shape})"
        if name.startswith("bias_l"):
            write += ", or rnnc.RNN(..., bias=False)"
        raise TensorError(name, found, wanted, write)
    if tuple(weight.shape) != shape:
        raise shape_error(name, weight, wanted, f"{name} of the shape {shape}")
    if device is not None and weight.device != device:
        raise TensorError(
            name,
            f"device {weight.device}",
            f"{device}, the device of x: all weights of a module are on one device",
            f"module.to({str(device)!r})",
        )
    return weight


def one_direction_error(what: str) -> TensorError:
    """Return the error of a method that runs single steps, for a bidirectional module."""
    return TensorError(
        what,
        "a bidirectional module, whose reverse directions begin with the last step",
        "a module of one direction",
        "rnnc.RNN(..., bidirectional=False), or forward on the whole sequence",
    )
