"""The tensors of one call of `scan`, and their gradients under the names of a cell's equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec, Pair
from ..runtime.scan import Backend, scan


@dataclass(frozen=True)
class Trial:
    """The tensors of one call of `scan`, as leaves."""

    wx: Tensor
    R: Tensor | None
    R_diag: Tensor | None
    b: Tensor | None
    params: tuple[Tensor, ...]
    initial: tuple[Tensor, ...]

    def tensors(self) -> list[Tensor]:
        """All of them that there are, in one order."""
        some = [t for t in (self.wx, self.R, self.R_diag, self.b) if t is not None]
        return [*some, *self.params, *self.initial]

    def of(self, tensors: Sequence[Tensor]) -> Trial:
        """The same with other tensors, in the order of `tensors()`."""
        rest = list(tensors)
        single = [
            None if t is None else rest.pop(0) for t in (self.wx, self.R, self.R_diag, self.b)
        ]
        assert single[0] is not None
        count = len(self.params)
        return Trial(
            single[0], single[1], single[2], single[3], tuple(rest[:count]), tuple(rest[count:])
        )

    def run(
        self, cell: CellSpec, backend: Backend
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """What `scan` gives for them."""
        return scan(
            cell,
            self.wx,
            self.R,
            self.b,
            self.initial,
            R_diag=self.R_diag,
            params=dict(zip([p.name for p in cell.params], self.params, strict=True)),
            backend=backend,
        )

    def detached(self, dtype: torch.dtype) -> Trial:
        """Copies that are leaves of a graph of their own."""
        return self.of([t.detach().to(dtype).requires_grad_() for t in self.tensors()])


def ordinary(cell: CellSpec, batch: int, steps: int, heads: int, dim: int) -> Trial:
    """Random inputs of an ordinary size; initial states are such as the cell itself comes to."""
    new = torch.empty(0, dtype=torch.float64).new_empty

    def normal(*shape: int) -> Tensor:
        return new(shape).normal_()

    dense, diagonal, biases = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)
    inputs = Trial(
        wx=normal(batch, steps, heads, dim, len(cell.input_gates)),
        R=normal(dense, heads, dim, dim) / math.sqrt(dim) if dense else None,
        R_diag=normal(diagonal, heads, dim) if diagonal else None,
        b=normal(biases, heads, dim) if biases else None,
        params=tuple(p.init + 0.5 * normal(heads, dim) for p in cell.params),
        initial=tuple(new(batch, heads, dim).fill_(s.init) for s in cell.states),
    )
    _, reached = inputs.run(cell, "reference")
    wx = normal(*inputs.wx.shape)
    return inputs.of([wx, *inputs.tensors()[1 : -len(cell.states)], *reached]).detached(wx.dtype)


def by_name(cell: CellSpec, gradients: Trial) -> dict[str, Tensor]:
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
    learned = [*cell.params, *cell.states]
    values = [*gradients.params, *gradients.initial]
    return named | {f"d_{d.name}": t for d, t in zip(learned, values, strict=True)}


def _index(pair: Pair, pairs: Sequence[Pair]) -> str:
    alone = sum(p.gate == pair.gate for p in pairs) == 1
    return pair.gate if alone else f"{pair.gate},{pair.source}"
