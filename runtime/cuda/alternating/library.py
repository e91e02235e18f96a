"""Products of an alternating plan by cuBLAS: their operands, and one product per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ....codegen.layout import Layout
from ....codegen.shape import Direction
from ..driver.capture import Captured, captured
from ..driver.matmul import AS_IT_IS, TRANSPOSED, ByGemmEx
from ..products.multiplier import product_kind
from .weights import copy_pairs


class LibraryProduct:
    """Operands and products of cuBLAS, one of each per source.

    R lies as (N, D out, pairs, D in), with one product per head. For a backward it lies as (N,
    pairs, D out, D in), with one product per head and pair: K is long there, and a product of one
    head alone would keep few multiprocessors busy.

    `new` makes tensors of a size, in the kernels' accuracy or the dtype given. The sizes are B, N
    and D. Products of a stream may share the workspace.
    """

    def __init__(
        self,
        layout: Layout,
        new: Callable[..., Tensor],
        dtype: torch.dtype,
        sizes: tuple[int, int, int],
        direction: Direction,
        device: int,
        workspace: Tensor,
        tf32: bool,
    ) -> None:
        self._layout, self._direction, self._workspace = layout, direction, workspace
        batch, heads, dim = sizes
        pairs_of = layout.source_pairs
        if direction == "forward":
            self._weights = [new(heads, dim, p, dim, dtype=dtype) for p in pairs_of]
            self.factors = [new(heads, batch, dim, dtype=dtype).zero_() for _ in pairs_of]
            self._products = [new(heads, batch, dim * p) for p in pairs_of]
        else:
            self._weights = [new(heads, p, dim, dim, dtype=dtype) for p in pairs_of]
            self.factors = [new(heads * p, batch, dim, dtype=dtype).zero_() for p in pairs_of]
            self._products = [new(heads * p, batch, dim) for p in pairs_of]
        axes = (1, 2) if direction == "forward" else (0, 1)
        self._multiplications = [
            self._multiplication(*operands, device, tf32)
            for operands in zip(
                self._products,
                self.factors,
                (weights.flatten(*axes) for weights in self._weights),
                strict=True,
            )
        ]

    def _multiplication(
        self, to: Tensor, factors: Tensor, weights: Tensor, device: int, tf32: bool
    ) -> tuple[ByGemmEx, tuple[int, int, int]]:
        """Return the launcher of a product, and the addresses of its operands."""
        inner, columns = factors.shape[2], to.shape[2]
        turned = (TRANSPOSED, inner) if self._direction == "forward" else (AS_IT_IS, columns)
        each = (AS_IT_IS, inner), turned
        kind, places = product_kind(to, factors, weights, each, tf32=tf32, add=False)
        return ByGemmEx(kind, device), places

    @property
    def operands(self) -> Sequence[Tensor]:
        """Products that the step's kernel reads beside the factors, one tensor per source."""
        return self._products

    def take(self, R: Tensor) -> None:
        """Take over the weights of a call, (Gr, N, D out, D in)."""
        # (pairs, N, out, in) -> (N, out, pairs, in) or (N, pairs, out, in)
        axes, pair_axis = ((1, 2, 0, 3), 2) if self._direction == "forward" else ((1, 0, 2, 3), 1)
        for source, weights in zip(self._layout.sources.space, self._weights, strict=True):
            copy_pairs(self._layout, R, source, weights, pair_axis, lambda r: r.permute(axes))

    def captured(self) -> Captured:
        """Capture what `multiply` launches."""
        return captured(self.multiply)

    def multiply(self, stream: int) -> None:
        """Multiply the factors of each source by R, on a stream, whose handle is given."""
        workspace = self._workspace
        for launch, places in self._multiplications:
            launch(*places, stream, workspace.data_ptr(), workspace.nbytes)
