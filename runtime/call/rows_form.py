"""Form of the parameters of `rnnc.RNN`: the weights of its layers as rows of units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from .layers import LayerWeights


@dataclass(frozen=True, eq=False)
class RowsForm:
    """Form of rows in the order head, gate, unit: matrices are (rows, features), vectors (rows).

    With one head each weight is a view of its parameter, and so is each parameter's gradient.
    Params lie as they are, (N, D). `heads` are those of each direction of a layer, of `dim` units
    each.
    """

    heads: int
    dim: int
    name: ClassVar[str] = "rows"

    def __reduce__(self) -> tuple[Any, ...]:
        return rows_form, (self.heads, self.dim)

    def weights(
        self, parameters: Sequence[Tensor | None], parts: int, by_address: bool = False
    ) -> list[LayerWeights]:
        """Return the weights, as views; see `Form`.

        `by_address` says that all but W may have any shape, if there is one head.
        """
        each, matrices, vectors = len(parameters) // parts, self._matrices, self._vectors
        if by_address and self.heads == 1:
            vectors = _as_it_is
        found = []
        for first in range(0, len(parameters), each):
            W, R, b, R_diag, *params = parameters[first : first + each]
            matrix = R if vectors is _as_it_is else matrices(R)
            given = matrices(W), matrix, vectors(b), vectors(R_diag)
            found.append(LayerWeights(*given, tuple(params)))  # type: ignore[arg-type]
        return found

    def of_step(self, parameters: Sequence[Tensor | None], parts: int) -> Sequence[Tensor | None]:
        """Return the parameters, whose memory is that of weights head by head; see `Form`."""
        return parameters

    def needs(self, needs: Sequence[bool], parts: int) -> Sequence[bool]:
        """Return `needs` as it is; see `Form`."""
        return needs

    def gradients(
        self, gradients: Sequence[Tensor | None], needs: Sequence[bool], parts: int
    ) -> Sequence[Tensor | None]:
        """Return the gradients of the parameters; see `Form`.

        Those that have their parameter's shape stay as they are.
        """
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

    def _matrices(self, rows: Tensor | None) -> Tensor | None:
        """Return (gates, N, D, features) of (N * gates * D, features)."""
        if rows is None:
            return None
        if self.heads == 1:
            return rows.view(-1, 1, self.dim, rows.shape[1])
        return rows.view(self.heads, -1, self.dim, rows.shape[1]).transpose(0, 1)

    def _vectors(self, rows: Tensor | None) -> Tensor | None:
        """Return (gates, N, D) of (N * gates * D)."""
        if rows is None:
            return None
        if self.heads == 1:
            return rows.view(-1, 1, self.dim)
        return rows.view(self.heads, -1, self.dim).transpose(0, 1)


def _as_it_is(rows: Tensor | None) -> Tensor | None:
    return rows


@lru_cache(maxsize=512)
def rows_form(heads: int, dim: int) -> RowsForm:
    """Return the form of a module; one object for all equal sizes."""
    return RowsForm(heads, dim)


def to_rows(weight: Tensor) -> Tensor:
    """Return (gates, N, D, features) or (gates, N, D) as rows in the order head, gate, unit."""
    return torch.flatten(weight.transpose(0, 1), 0, 2)
