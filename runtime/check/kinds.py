"""Checks of the layouts and dtypes of a call's tensors, before kernels run it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...errors import TensorError
from ..call.call import Tensors
from .tensor import check_same, check_strided


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
