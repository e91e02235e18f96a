"""R in the orders that the products of an alternating plan read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ....codegen.cuda.alternating.plan import K_TILE, OwnProduct
from ....codegen.cuda.mma import TILE_N


def copy_pairs(
    matrices: Sequence[int],
    R: Tensor,
    to: Tensor,
    axis: int,
    arrange: Callable[[Tensor], Tensor],
) -> None:
    """Copy the matrices of a source's pairs, in the order of products.

    Args:
        matrices: their numbers.
        R: (Gr, N, D out, D in).
        to: contiguous; what `arrange` makes of all the matrices.
        axis: of the pairs in `to`.
        arrange: gives some matrices, (pairs, N, D out, D in), the order of `to`.
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
