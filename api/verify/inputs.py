"""Tensors for calls of `scan` in checks, and gradients under the names of a cell's equations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..cellspec.pairs import Pair
from ..runtime.call.tensors import ScanInputs, States
from ..runtime.scan.scan import scan


def run(
    cell: CellSpec, inputs: ScanInputs, backend: str, variant: str = "auto"
) -> tuple[States, States]:
    """The results of `scan` for inputs.

    Args:
        cell: the cell.
        inputs: the tensors of the call.
        backend: as in `scan`.
        variant: as in `scan`.
    """
    return scan(
        cell,
        inputs.wx,
        inputs.R,
        inputs.b,
        inputs.initial_states,
        R_diag=inputs.R_diag,
        params={p.name: t for p, t in zip(cell.params, inputs.params, strict=True)},
        inputs={i.name: t for i, t in zip(cell.inputs, inputs.unweighted, strict=True)},
        backend=backend,
        variant=variant,
        precision="ieee",
    )


def leaves_of(inputs: ScanInputs, dtype: torch.dtype) -> ScanInputs:
    """Copies of inputs that need gradients, as leaves of a new graph.

    Args:
        inputs: the tensors to copy.
        dtype: the dtype of the copies.
    """
    return inputs.map(lambda tensor: tensor.detach().to(dtype).requires_grad_())


def with_tensors(inputs: ScanInputs, tensors: Iterable[Tensor]) -> ScanInputs:
    """Inputs with other tensors in place of those that are present.

    Args:
        inputs: the inputs.
        tensors: one for each tensor that is present, in the order of `ScanInputs.present`.
    """
    rest = iter(tensors)
    return inputs.map(lambda _: next(rest))


def ordinary(cell: CellSpec, batch: int, steps: int, heads: int, dim: int) -> ScanInputs:
    """Random inputs of an ordinary size; the initial states are states that the cell reaches."""
    new = torch.empty(0, dtype=torch.float64).new_empty

    def normal(*shape: int) -> Tensor:
        return new(shape).normal_()

    dense, diagonal, biases = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)
    wx = normal(batch, steps, heads, dim, len(cell.input_gates))
    R = normal(dense, heads, dim, dim) / math.sqrt(dim) if dense else None
    R_diag = normal(diagonal, heads, dim) if diagonal else None
    b = normal(biases, heads, dim) if biases else None
    params = [p.init + 0.5 * normal(heads, dim) for p in cell.params]
    first = [new(batch, heads, dim).fill_(s.init) for s in cell.states]
    # Values that are not negative, as of times and masks.
    unweighted = [normal(batch, steps, heads, dim).abs() for _ in cell.inputs]
    inputs = ScanInputs(wx, R, b, first, R_diag, params, unweighted=unweighted)
    _, reached = run(cell, inputs, "reference")
    return leaves_of(replace(inputs, wx=normal(*wx.shape), initial_states=reached), wx.dtype)


def by_name(cell: CellSpec, gradients: ScanInputs) -> dict[str, Tensor]:
    """Each gradient under the name that the cell's equations give its tensor."""
    named = {f"d_x_{g}": gradients.wx[..., i] for i, g in enumerate(cell.input_gates)}
    for letter, pairs, tensor in (
        ("R", cell.dense_pairs, gradients.R),
        ("u", cell.diagonal_pairs, gradients.R_diag),
    ):
        for i, pair in enumerate(pairs):
            assert tensor is not None
            named[f"d_{letter}_{_index(pair, pairs)}"] = tensor[i]
    for i, gate in enumerate(cell.bias_gates):
        assert gradients.b is not None
        named[f"d_b_{gate}"] = gradients.b[i]
    others = [*cell.params, *cell.states, *cell.inputs]
    values = [*gradients.params, *gradients.initial_states, *gradients.unweighted]
    return named | {f"d_{d.name}": t for d, t in zip(others, values, strict=True)}


def _index(pair: Pair, pairs: Sequence[Pair]) -> str:
    alone = sum(p.gate == pair.gate for p in pairs) == 1
    return pair.gate if alone else f"{pair.gate},{pair.source}"
