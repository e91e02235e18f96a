"""Inputs that the calls of a module draw, and the same numbers for its reference."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from ...cellspec.noise.draw import Draw
from .case import Call, ModuleCase
from .cells import cell_named
from .layout import reset_of

_PREFIX = "drawn."


def is_drawn(name: str) -> bool:
    """Return whether a tensor is one that a call draws.

    Args:
        name: of the tensor.
    """
    return name.startswith(_PREFIX)


def named_inputs(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs that no weight multiplies by their names in the cell.

    Args:
        tensors: of a call.
    """
    prefixes = ("inputs.", _PREFIX)
    return {n.partition(".")[2]: t for n, t in tensors.items() if n.startswith(prefixes)}


def draws(case: ModuleCase, call: Call) -> bool:
    """Return whether the kernels' call is not given what the cell draws.

    A single step is: it does not know its sequence.

    Args:
        case: the case.
        call: the call.
    """
    return not case.passed and call.kind != "steps"


def generator_of(case: ModuleCase, call: Call) -> torch.Generator:
    """Return what the kernels' call draws from.

    Args:
        case: the case.
        call: the call.
    """
    seed = case.seed + zlib.crc32(f"draws {call.values}".encode())
    return torch.Generator(case.device).manual_seed(seed)


def drawn_values(case: ModuleCase, call: Call) -> dict[str, Tensor]:
    """Return what a call draws, by name, (layers * directions, T, B, N, D) each in float64.

    Where it draws nothing they are means: outside of training, and in steppers.

    Args:
        case: the case.
        call: the call.
    """
    cell, generator, found = cell_named(case.cell), generator_of(case, call), {}
    shape = case.parts, call.steps, call.batch, case.heads, case.dim
    for name, draw in cell.drawn.items():
        if call.training or case.passed:
            values = _sample(case, call, draw, shape, generator).double()
        else:
            mean = draw.mean(cell.constant_values)
            values = torch.full(shape, mean, dtype=torch.float64, device=case.device)
        found[f"{_PREFIX}{name}"] = values
    return found


def _sample(
    case: ModuleCase,
    call: Call,
    draw: Draw,
    shape: tuple[int, ...],
    generator: torch.Generator,
) -> Tensor:
    """Draw an input; of what is drawn once per sequence, each part of a row has one value."""
    parts, steps, *others = shape
    numbers, reset = draw.numbers(cell_named(case.cell).constant_values), reset_of(call)
    once = draw.per == "sequence"
    count = 1 if once and reset is None else steps
    dtype: torch.dtype = getattr(torch, case.dtype)
    values = torch.empty(parts, count, *others, dtype=dtype, device=case.device)
    getattr(values, f"{draw.kind}_")(*numbers, generator=generator)
    if once and reset is not None:
        for row, resets in enumerate(call.resets):
            for t in range(steps):
                if t not in resets and t:
                    values[:, t, row] = values[:, t - 1, row]
    return values.expand(shape)
