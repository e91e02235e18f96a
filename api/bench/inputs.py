"""The tensors of a row of `rnnc bench`, shared by all contenders of a dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from .rows import Row

_HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
DTYPES: dict[str, torch.dtype] = {**_HALF, "float32": torch.float32}


class Call(NamedTuple):
    """A call to time: a forward, the gradient that its backward starts from, and the inputs.

    Attributes:
        run: the forward; returns the tensor at which the backward starts.
        seed: the gradient of that tensor.
        inputs: the tensors that get gradients.
    """

    run: Callable[[], Tensor]
    seed: Tensor
    inputs: list[Tensor]

    def step(self) -> tuple[Tensor, ...]:
        """A forward and its backward: the gradients of all inputs."""
        return torch.autograd.grad(self.run(), self.inputs, self.seed)


@dataclass(frozen=True)
class Inputs:
    """The tensors of a row in one dtype; each is drawn on first use.

    Attributes:
        cell: the cell.
        row: the sizes.
        dtype: a key of `DTYPES`.
        device: the tensors' device.
        per_unit: whether each `Input` of the cell has a value per unit, and a gradient.

    Example:
        >>> import rnnc
        >>> from rnnc.bench.inputs import Inputs
        >>> from rnnc.bench.rows import Row
        >>> inputs = Inputs(rnnc.cells.lstm, Row("lstm", 2, 8, 3, 5), "float32", "cpu")
        >>> inputs.wx.shape, inputs.wx.stride(1) > inputs.wx.stride(0)
        (torch.Size([3, 5, 2, 8, 4]), True)
    """

    cell: CellSpec
    row: Row
    dtype: str
    device: str
    per_unit: bool = False

    def draw(self, *shape: int, scale: float = 0.5, grad: bool = True) -> Tensor:
        """A normal tensor of the row's dtype, on its device."""
        drawn = torch.randn(shape, dtype=DTYPES[self.dtype], device=self.device) * scale
        return drawn.requires_grad_(grad)

    @cached_property
    def wx(self) -> Tensor:
        """(B, T, N, D, Gx), time-major in memory, as the input GEMM writes it."""
        row = self.row
        sizes = (row.steps, row.batch, row.heads, row.head_dim, len(self.cell.input_gates))
        return self.draw(*sizes, grad=False).transpose(0, 1).requires_grad_()

    @cached_property
    def R(self) -> Tensor | None:  # noqa: N802 - its name in every paper
        """(Gr, N, D, D), small enough that states stay moderate."""
        row, pairs = self.row, len(self.cell.dense_pairs)
        if not pairs:
            return None
        return self.draw(pairs, row.heads, row.head_dim, row.head_dim, scale=row.head_dim**-0.5)

    @cached_property
    def b(self) -> Tensor | None:
        """(Gb, N, D)."""
        return self._rows(len(self.cell.bias_gates))

    @cached_property
    def R_diag(self) -> Tensor | None:  # noqa: N802 - as R
        """(Gd, N, D)."""
        return self._rows(len(self.cell.diagonal_pairs))

    def _rows(self, count: int) -> Tensor | None:
        return self.draw(count, self.row.heads, self.row.head_dim) if count else None

    @cached_property
    def params(self) -> dict[str, Tensor]:
        """(N, D) each, at their `init`."""
        sizes = (self.row.heads, self.row.head_dim)
        return {
            p.name: self.draw(*sizes, grad=False).fill_(p.init).requires_grad_()
            for p in self.cell.params
        }

    @cached_property
    def given(self) -> dict[str, Tensor]:
        """A number per step and row for each `Input`, (T, B); per unit, (T, B, N, D)."""
        row = self.row
        sizes = [row.steps, row.batch, *([row.heads, row.head_dim] if self.per_unit else [])]
        drawn = {i.name: self.draw(*sizes, grad=False).abs_() for i in self.cell.inputs}
        return {name: each.requires_grad_(self.per_unit) for name, each in drawn.items()}

    @cached_property
    def x(self) -> Tensor:
        """(T, B, N * D), the input of a module."""
        return self.draw(self.row.steps, self.row.batch, self.row.hidden, scale=1)

    @cached_property
    def d_h(self) -> Tensor:
        """The gradient of h at all steps, (T, B, N, D)."""
        row = self.row
        return self.draw(row.steps, row.batch, row.heads, row.head_dim, grad=False)

    def draw_all(self) -> None:
        """Draw all remaining tensors, so that no clock measures it."""
        _ = (self.leaves(), self.given, self.x, self.d_h)

    def leaves(self) -> list[Tensor]:
        """The inputs of a scan that get gradients."""
        given = [self.wx, self.R, self.b, self.R_diag, *self.params.values()]
        given += self.given.values() if self.per_unit else ()
        return [t for t in given if t is not None and t.numel()]
