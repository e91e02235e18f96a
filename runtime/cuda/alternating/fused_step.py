"""Products of an alternating plan inside the step's kernel: their operands, and its grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ....codegen.cuda.alternating.plan import K_TILE, OwnProduct
from ....codegen.cuda.mma import TILE_N
from ....codegen.shape import Direction
from .weights import copy_pairs, strips_backward, strips_forward


class KernelProduct:
    """R as fragments, and two sets of factors that steps write in turns.

    `matrices` has those of each source, and `sizes` are B, N and D.
    """

    def __init__(
        self,
        matrices: Sequence[Sequence[int]],
        own: OwnProduct,
        new: Callable[..., Tensor],
        dtype: torch.dtype,
        sizes: tuple[int, int, int],
        direction: Direction,
    ) -> None:
        self._matrices, self._own, self._direction = matrices, own, direction
        split = own.split
        batch, heads, dim = sizes
        chunks = math.ceil(dim / K_TILE)
        tiles = math.ceil(dim / (TILE_N * split)) * split
        self.grid = (heads * tiles, math.ceil(batch / own.rows), 1)
        pairs_of = [len(each) for each in matrices]
        self.operands: Sequence[Tensor] = [
            new(heads * tiles * chunks * p * TILE_N * K_TILE, dtype=dtype) for p in pairs_of
        ]
        # Of all rows of a block and whole chunks of K; what is padding stays zero.
        rows = self.grid[1] * own.rows
        self.factors = [
            new(2 * heads * rows * p * chunks * K_TILE, dtype=dtype).zero_()
            for p in ((1,) * len(pairs_of) if direction == "forward" else pairs_of)
        ]

    def take(self, R: Tensor) -> None:
        """Take over the weights of a call, (Gr, N, D out, D in)."""
        for matrices, weights in zip(self._matrices, self.operands, strict=True):
            if self._direction == "forward":
                copy_pairs(matrices, R, weights, 3, strips_forward)
            else:
                own = partial(strips_backward, own=self._own)
                copy_pairs(matrices, R, weights, 2, own)

    def captured(self, product: int) -> None:
        """Capture nothing: the step's kernel multiplies."""

    def multiply(self, stream: int, product: int = 0) -> None:
        """Do nothing: the step's kernel multiplies."""
