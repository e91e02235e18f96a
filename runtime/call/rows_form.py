"""Form of the parameters of `rnnc.RNN`: the weights of its layers as rows of units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .forms import Form, LayerWeights


@dataclass(frozen=True)
class RowsForm(Form):
    """Form of rows in the order head, gate, unit: matrices are (rows, features), vectors (rows).

    With one head each weight is a view of its parameter, and so is each parameter's gradient.
    Params lie as they are, (N, D). `heads` are those of each direction of a layer, of `dim` units
    each.
    """

    heads: int
    dim: int
    name = "rows"

    def weights(self, parameters: Sequence[Tensor | None], parts: int) -> list[LayerWeights]:
        """Return the weights, as views; see `Form`."""
        return self.for_kernels(parameters, parts, False, True)

    def for_kernels(
        self, parameters: Sequence[Tensor | None], parts: int, by_address: bool, biases: bool
    ) -> list[LayerWeights]:
        """Return the weights, as views; see `Form`."""
        each, blocks = len(parameters) // parts, self.blocks
        if by_address and self.heads == 1:
            blocks = _as_it_is
        found = []
        for first in range(0, len(parameters), each):
            W, *others, R_diag = parameters[first : first + 4]
            params: Any = tuple(parameters[first + 4 : first + each])
            R, b = map(blocks, others)
            found.append(LayerWeights(self.blocks(W), R, b, blocks(R_diag), params))
        return found

    def gradients(
        self, gradients: Sequence[Tensor | None], needs: Sequence[bool], parts: int
    ) -> Sequence[Tensor | None]:
        """Return the gradients of the parameters; those in their shape stay as they are."""
        each, found = len(gradients) // parts, list(gradients)
        for first in range(0, len(found), each):
            for place in range(first, first + 4):
                gradient, rank = found[place], 2 if place < first + 2 else 1
                if gradient is None or gradient.ndim == rank:
                    continue
                if self.heads > 1:
                    found[place] = to_rows(gradient)
                else:
                    found[place] = gradient.reshape(-1, *gradient.shape[3:])
        return found

    def blocks(self, rows: Tensor | None) -> Tensor | None:
        """Return (gates, N, D, …) of rows (N * gates * D, …)."""
        if rows is None:
            return None
        if self.heads == 1:
            return rows.view(-1, 1, self.dim, *rows.shape[1:])
        return rows.view(self.heads, -1, self.dim, *rows.shape[1:]).transpose(0, 1)


def _as_it_is(rows: Tensor | None) -> Tensor | None:
    return rows


rows_form = RowsForm  # the name that pickles of earlier versions hold


def to_rows(weight: Tensor) -> Tensor:
    """Return (gates, N, D, features) or (gates, N, D) as rows in the order head, gate, unit."""
    return torch.flatten(weight.transpose(0, 1), 0, 2)
