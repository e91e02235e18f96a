"""Products of an alternating plan by cuBLAS: their operands, and one product per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ....codegen.shape import Direction
from ..driver.capture import Captured, captured
from ..driver.matmul import AS_IT_IS, TRANSPOSED, ByGemmEx
from ..products.multiplier import product_kind
from .weights import copy_pairs


class LibraryProduct:
    """Operands and products of cuBLAS, one of each per source of each product of a step.

    R lies as (N, D out, pairs, D in), with one product per head. For a backward it lies as (N,
    pairs, D out, D in), with one product per head and pair: K is long there, and a product of one
    head alone would keep few multiprocessors busy.

    `products` has the matrices of each source of each product, as `StepFacts` has them. `new` makes
    tensors of a size, in the kernels' accuracy or the dtype given. The sizes are B, N and D.
    Products of a stream may share the workspace.
    """

    def __init__(
        self,
        products: Sequence[Sequence[Sequence[int]]],
        new: Callable[..., Tensor],
        dtype: torch.dtype,
        sizes: tuple[int, int, int],
        direction: Direction,
        device: int,
        workspace: Tensor,
        tf32: bool,
    ) -> None:
        self._matrices = [matrices for sources in products for matrices in sources]
        self._direction, self._workspace = direction, workspace
        batch, heads, dim = sizes
        pairs_of = [len(matrices) for matrices in self._matrices]
        if direction == "forward":
            self._weights = [new(heads, dim, p, dim, dtype=dtype) for p in pairs_of]
            self.factors = [new(heads, batch, dim, dtype=dtype).zero_() for _ in pairs_of]
            self._products = [new(heads, batch, dim * p) for p in pairs_of]
        else:
            self._weights = [new(heads, p, dim, dim, dtype=dtype) for p in pairs_of]
            self.factors = [new(heads * p, batch, dim, dtype=dtype).zero_() for p in pairs_of]
            self._products = [new(heads * p, batch, dim) for p in pairs_of]
        axes = (1, 2) if direction == "forward" else (0, 1)
        every = zip(
            self._products,
            self.factors,
            (weights.flatten(*axes) for weights in self._weights),
            strict=True,
        )
        self._multiplications = [
            [self._multiplication(*next(every), device, tf32) for _ in sources]
            for sources in products
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
        for matrices, weights in zip(self._matrices, self._weights, strict=True):
            copy_pairs(matrices, R, weights, pair_axis, lambda r: r.permute(axes))

    def captured(self, product: int) -> Captured:
        """Capture what `multiply` launches."""
        return captured(partial(self.multiply, product=product))

    def multiply(self, stream: int, product: int = 0) -> None:
        """Multiply the factors of a product's sources by R, on a stream, whose handle is given."""
        workspace = self._workspace
        for launch, places in self._multiplications[product]:
            launch(*places, stream, workspace.data_ptr(), workspace.nbytes)
