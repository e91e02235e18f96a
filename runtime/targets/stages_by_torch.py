"""Called gates and reductions of a step by operations of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.expression.node import Node, make
from ...cellspec.stages.nodes import eps_of, is_together, reduced
from ..call.tensors import ScanInputs


class StagesByTorch(NamedTuple):
    """Exchanges between the units of a cell in a step, after its first products.

    Attributes:
        gates: of called gates, input and bias, (B, N, D) each.
        like: of the shape (B, N, D).
        runs: (B, 1, 1), the rows that run the step; None for all.
    """

    cell: CellSpec
    inputs: ScanInputs
    gates: Mapping[str, Tensor]
    like: Tensor
    runs: Tensor | None

    def computed(self, node: Node, known: Mapping[Node, Tensor]) -> dict[Node, Tensor]:
        """Return what a node is, or what each value is of those normed together."""
        if node.op == "member":
            return {}  # known with the others
        if node.op == "gate":
            return {node: self._gate(node.name, self._selected(known[node.args[0]]))}
        values = [self._selected(known[a]) for a in reduced(node)]
        if is_together(node):
            found = _normed(node, torch.cat(values, -1)).chunk(len(values), -1)
            members = (make("member", place, (node,)) for place in range(len(found)))
            return dict(zip(members, found, strict=True))
        if node.name in _SINGLE:
            return {node: _SINGLE[node.name](values[0]).expand_as(self.like)}
        return {node: _normed(node, values[0])}

    def _selected(self, value: Tensor) -> Tensor:
        """Return a value of all units, 0 in rows that do not run: no NaN of theirs is exchanged."""
        full = value.expand_as(self.like)
        return full if self.runs is None else torch.where(self.runs, full, 0.0)

    def _gate(self, name: str, argument: Tensor) -> Tensor:
        gate = self.gates[name]
        for pairs, weights, product in (
            (self.cell.dense_pairs, self.inputs.R, matrix_product),
            (self.cell.diagonal_pairs, self.inputs.R_diag, torch.mul),
        ):
            for number, pair in enumerate(pairs):
                if pair.gate == name:
                    assert weights is not None
                    gate = gate + product(weights[number], argument)
        return gate


def matrix_product(matrix: Tensor, values: Tensor) -> Tensor:
    """Return the product of each head's matrix (N, D out, D in) and values (B, N, D)."""
    return torch.einsum("noi,bni->bno", matrix, values)


_SINGLE: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda x: x.mean(-1, keepdim=True),
    "total": lambda x: x.sum(-1, keepdim=True),
    "largest": lambda x: x.amax(-1, keepdim=True),
    "softmax": lambda x: torch.softmax(x, -1),
}


def _normed(node: Node, values: Tensor) -> Tensor:
    """Return values normed over their last axis."""
    if node.name == "layer_norm":
        return F.layer_norm(values, values.shape[-1:], eps=eps_of(node))
    mean = (values * values).mean(-1, keepdim=True)
    return values * torch.rsqrt(mean + eps_of(node))
