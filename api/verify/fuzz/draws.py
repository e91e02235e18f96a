"""Inputs that the call of a case draws, and the same numbers for its loop."""

from __future__ import annotations

import torch
from torch import Tensor

from ..draw.tree import Case


def drawn_names(case: Case) -> set[str]:
    """The names of the tensors that the call draws.

    Args:
        case: the call. A scan draws; a module is given these inputs.
    """
    scanned = case.through == "scan"
    return {f"inputs.{i.name}" for i in case.cell.inputs if scanned and i.draw is not None}


def generator_of(case: Case) -> torch.Generator:
    """Return what the call draws from."""
    return torch.Generator(case.device).manual_seed(case.seed)


def drawn_values(case: Case) -> dict[str, Tensor]:
    """Return a call's draws, (B, T, N, D) each in float64, in the order of the cell's inputs."""
    generator, names, found = generator_of(case), drawn_names(case), {}
    for given in case.cell.inputs:
        name = f"inputs.{given.name}"
        if name in names and given.draw is not None:
            kind, numbers = given.draw
            shape = case.steps, case.batch, case.heads, case.dim
            values = torch.empty(shape, dtype=getattr(torch, case.dtype), device=case.device)
            getattr(values, f"{kind}_")(*numbers, generator=generator)
            found[name] = values.transpose(0, 1).double().cpu()
    return found


def needs_gradient(case: Case, name: str) -> bool:
    """Return True if the gradient of a tensor is asked for: none of what the call draws."""
    return name not in case.without and name not in drawn_names(case)
