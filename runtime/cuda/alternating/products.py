"""Products of a step of an alternating plan, by cuBLAS or inside its kernel, and their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.alternating.plan import K_TILE, OwnProduct
from ....codegen.cuda.mma import TILE_N
from ....codegen.cuda.stage_tables import stage_tables
from ....codegen.derive import derive
from ....codegen.layout import layout_of
from ....codegen.shape import Direction
from ....codegen.spaces import numbers
from ...call.facts import facts_of
from ...store.memo import remembered
from ..driver.capture import Captured, captured
from ..driver.matmul import AS_IT_IS, TRANSPOSED, ByGemmEx
from ..launch import CallSizes
from ..products.multiply import product_kind


class StepFacts(NamedTuple):
    """Sizes of a step, and its products.

    Attributes:
        matrices: of each source of each product of a step: first of the states, then of the called
            gates that each further kernel of the step needs.
        values: numbers of a unit that kernels of a step leave for others: what stages leave, sums
            of products in a forward, and gradients in a backward.
        numbers: of a head, likewise.
    """

    matrices: list[list[list[int]]]
    values: int
    numbers: int


@lru_cache(maxsize=512)
def step_facts(cell: CellSpec, direction: Direction) -> StepFacts:
    """Return the facts of a direction; from the cache folder nothing is derived for them."""
    if not cell.has_stages:
        layout = layout_of(cell)
        return StepFacts([[numbers(layout.matrices_of(s)) for s in layout.sources.space]], 0, 0)
    counts = facts_of(cell).counts
    more = counts.gates if direction == "forward" else counts.gradients + counts.params

    def make() -> list[Any]:
        tables = stage_tables(derive(cell), direction)
        assert tables is not None
        states = [[matrix for _, matrix in s.pairs] for s in tables.sources if s.state >= 0]
        called = [
            [[matrix for _, matrix in s.pairs] for s in tables.sources if s.stage == first]
            for first in tables.first_stages[1:]
        ]
        return [[states, *called], len(tables.values), len(tables.computed)]

    def read(found: Any) -> StepFacts:
        matrices, values, of_head = found
        flat = [m for product in matrices for source in product for m in source]
        if {type(number) for number in (*flat, values, of_head)} != {int}:
            raise ValueError(f"no facts of a step of {cell.name}: {found!r}")
        return StepFacts(matrices, values + more, of_head)

    return remembered(cell.name, f"alternating {direction} {cell.fingerprint}", make, read)


class Operands(NamedTuple):
    """Facts of the operands of steps of one direction: B, N and D, and the dtype of a call.

    `new` makes tensors of a size, in the kernels' accuracy or the dtype given.
    """

    sizes: CallSizes
    dtype: torch.dtype
    direction: Direction
    new: Callable[..., Tensor]


class KernelProduct:
    """R as fragments, and two sets of factors that steps write in turns.

    `matrices` has those of each source.
    """

    def __init__(self, matrices: Sequence[Sequence[int]], own: OwnProduct, of: Operands) -> None:
        (batch, heads, dim), dtype, direction, new = of
        self._matrices, self._own, self._direction = matrices, own, direction
        split = own.split
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


class LibraryProduct:
    """Operands and products of cuBLAS, one of each per source of each product of a step.

    R lies as (N, D out, pairs, D in), with one product per head. For a backward it lies as (N,
    pairs, D out, D in), with one product per head and pair: K is long there, and a product of one
    head alone would keep few multiprocessors busy.

    `products` has the matrices of each source of each product, as `StepFacts` has them. Products of
    a stream may share the workspace.
    """

    def __init__(
        self, products: list[list[list[int]]], of: Operands, workspace: Tensor, tf32: bool
    ) -> None:
        (batch, heads, dim), dtype, direction, new = of
        self._matrices = [matrices for sources in products for matrices in sources]
        self._direction, self._workspace, self._tf32 = direction, workspace, tf32
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
            [self._multiplication(*next(every)) for _ in sources] for sources in products
        ]

    def _multiplication(
        self, to: Tensor, factors: Tensor, weights: Tensor
    ) -> tuple[ByGemmEx, tuple[int, int, int]]:
        """Return the launcher of a product, and the addresses of its operands."""
        inner, columns = factors.shape[2], to.shape[2]
        turned = (TRANSPOSED, inner) if self._direction == "forward" else (AS_IT_IS, columns)
        each = (AS_IT_IS, inner), turned
        kind, places = product_kind(to, factors, weights, each, tf32=self._tf32, add=False)
        return ByGemmEx(kind, self._workspace.device.index), places

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


def copy_pairs(
    matrices: Sequence[int],
    R: Tensor,
    to: Tensor,
    axis: int,
    arrange: Callable[[Tensor], Tensor],
) -> None:
    """Copy the matrices of a source's pairs, in the order of products.

    R is (Gr, N, D out, D in), and `to` contiguous: what `arrange` makes of all of the matrices,
    which have these numbers. It gives some, (pairs, N, D out, D in), the order of `to`, whose
    `axis` is that of the pairs.
    """
    step = matrices[1] - matrices[0] if len(matrices) > 1 else 1
    if step > 0 and [*matrices] == list(range(matrices[0], matrices[-1] + 1, step)):
        arranged = arrange(R[matrices[0] : matrices[-1] + 1 : step])
        to.view(arranged.shape).copy_(arranged)
        return
    # One by one: an index of numbers would be copied from the host, which a capture refuses, and
    # a tensor of all of them would take the room of R again.
    for place, matrix in enumerate(matrices):
        arranged = arrange(R[matrix : matrix + 1])
        shape = [*arranged.shape]
        shape[axis] = len(matrices)
        to.view(shape).narrow(axis, place, 1).copy_(arranged)


def strips_forward(R: Tensor) -> Tensor:
    """Return strips of 8 units' rows, as fragments that a block reads chunk after chunk.

    R is (pairs, N, D out, D in). The result is (N, tiles of 8 units, chunks of K, pairs, 8 units, 4
    quads, 8 of K), padded with zeros. It is a view where D is a multiple of a chunk.
    """
    pairs, heads, dim, _ = R.shape
    tiles, chunks = math.ceil(dim / TILE_N), math.ceil(dim / K_TILE)
    R = _padded(R, tiles * TILE_N, chunks * K_TILE)
    return R.view(pairs, heads, tiles, TILE_N, chunks, 4, K_TILE // 4).permute(1, 2, 4, 0, 3, 5, 6)


def strips_backward(R: Tensor, own: OwnProduct) -> Tensor:
    """Return strips of 8 units' columns, as fragments, one for each block of a cluster.

    K runs over the gates of all pairs. R is (pairs, N, D out, D in). The result is (N, clusters,
    pairs, chunks of K, strips, 8 units, 4 quads, 8 of K), padded or a view as in `strips_forward`.
    """
    pairs, heads, dim, _ = R.shape
    groups, chunks = math.ceil(dim / (TILE_N * own.split)), math.ceil(dim / K_TILE)
    R = _padded(R, chunks * K_TILE, groups * own.split * TILE_N)
    R = R.view(pairs, heads, chunks, 4, K_TILE // 4, groups, own.split, TILE_N)
    return R.permute(1, 5, 0, 2, 6, 7, 3, 4)


def _padded(R: Tensor, rows: int, columns: int) -> Tensor:
    more = (rows - R.shape[2], columns - R.shape[3])
    return torch.nn.functional.pad(R, (0, more[1], 0, more[0])) if any(more) else R
