"""Products of an alternating plan by cuBLAS: their operands, and one product per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from ....codegen.layout import Layout
from ....codegen.shape import Direction
from ..driver.capture import Captured, captured
from ..driver.cublas import Blas, Product
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
        blas: Blas,
        workspace: Tensor,
        tf32: bool,
    ) -> None:
        self._layout, self._direction = layout, direction
        self._blas, self._workspace = blas, workspace
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
        flattened = (1, 2) if direction == "forward" else (0, 1)
        self._multiplications = [
            Product(
                blas,
                factors,
                weights.flatten(*flattened),
                products,
                transposed=direction == "forward",
                tf32=tf32,
            )
            for factors, weights, products in zip(
                self.factors, self._weights, self._products, strict=True
            )
        ]

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

    def on(self, stream: int) -> AbstractContextManager[None]:
        """Return a context in which products go to a stream, whose handle is given."""
        return self._blas.on(stream, self._workspace)

    def captured(self) -> Captured:
        """Capture what `multiply` launches."""

        def launch(stream: int) -> None:
            with self.on(stream):
                self.multiply()

        return captured(launch)

    def multiply(self) -> None:
        """Multiply the factors of each source by R, on the stream of `on`."""
        for multiply in self._multiplications:
            multiply()
