"""Finite differences of a cell's kernels."""

from __future__ import annotations

import re

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from ..cellspec.cell import CellSpec
from .cuts import CutCell, cut
from .inputs import ordinary, run, with_tensors


def finite_differences(cell: CellSpec) -> str:
    """Return how finite differences of kernels disagree with their gradients; empty if they agree.

    Args:
        cell: the cell; it is cut where its gradients are meant to be no derivatives.
    """
    parts = cut(cell, ordinary(cell, batch=2, steps=2, heads=1, dim=2))

    def outputs(*tensors: Tensor) -> tuple[Tensor, ...]:
        over_time, last = run(parts.cell, with_tensors(parts.inputs, tensors), "cpu")
        return (*over_time, *last)

    try:
        torch.autograd.gradcheck(outputs, parts.inputs.present())
    except GradcheckError as error:
        return _in_names(parts, str(error).strip().splitlines()[0])
    return ""


def _in_names(parts: CutCell, said: str) -> str:
    """The first line of gradcheck's message, with names in place of the numbers of tensors."""
    numbers = re.search(r"for output (\d+) with respect to input (\d+)", said)
    if not numbers:
        return said.rstrip(",")
    cell = parts.cell
    states, params, given = (
        [parts.shown.get(d.name, d.name) for d in declared]
        for declared in (cell.states, cell.params, cell.inputs)
    )
    names = ["x", "R", "b", *states, "u", *params, *given]  # in the order of `ScanInputs.flat`
    flat = parts.inputs.flat()
    sources = [name for name, t in zip(names, flat, strict=True) if t is not None]
    outputs = [f"{state} {when}" for when in ("over time", "last") for state in states]
    return f"the gradient of {outputs[int(numbers[1])]} by {sources[int(numbers[2])]}"
