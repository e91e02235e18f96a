"""R in the orders that the products of an alternating plan read."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..codegen.alternating_plan import CHUNK, STRIP, OwnProduct
from ..codegen.layout import Layout


def chosen_pairs(layout: Layout, R: Tensor, source: int) -> Tensor:
    """The matrices of a source's pairs in their order, (pairs, N, D out, D in); a view where it can
    be one.

    Args:
        layout: of the cell.
        R: (Gr, N, D out, D in).
        source: its number among the layout's sources.
    """
    first, pairs = layout.source_first_pair[source], layout.source_pairs[source]
    matrices = list(layout.pair_matrices[first : first + pairs])
    step = matrices[1] - matrices[0] if pairs > 1 else 1
    if step > 0 and matrices == list(range(matrices[0], matrices[-1] + 1, step)):
        return R[matrices[0] : matrices[-1] + 1 : step]
    # An index of numbers would be copied from the host, which a capture refuses.
    return torch.stack([R[matrix] for matrix in matrices])


def strips_forward(R: Tensor) -> Tensor:
    """Strips of 8 units' rows, as fragments: what a block of 8 units reads in a row of chunks.

    Args:
        R: (pairs, N, D out, D in).

    Returns:
        (N, tiles of 8 units, chunks of K, pairs, 8 units, 4 quads, 8 of K), a view where D is a
        multiple of a chunk; padded with zeros.
    """
    pairs, heads, dim, _ = R.shape
    tiles, chunks = math.ceil(dim / STRIP), math.ceil(dim / CHUNK)
    R = _padded(R, tiles * STRIP, chunks * CHUNK)
    return R.view(pairs, heads, tiles, STRIP, chunks, 4, CHUNK // 4).permute(1, 2, 4, 0, 3, 5, 6)


def strips_backward(R: Tensor, own: OwnProduct) -> Tensor:
    """Strips of 8 units' columns, as fragments: K runs over the gates of all pairs, and a cluster
    of blocks has a strip each.

    Args:
        R: (pairs, N, D out, D in).
        own: the sizes of the kernel.

    Returns:
        (N, clusters, pairs, chunks of K, strips, 8 units, 4 quads, 8 of K), likewise.
    """
    pairs, heads, dim, _ = R.shape
    groups, chunks = math.ceil(dim / (STRIP * own.split)), math.ceil(dim / CHUNK)
    R = _padded(R, chunks * CHUNK, groups * own.split * STRIP)
    R = R.view(pairs, heads, chunks, 4, CHUNK // 4, groups, own.split, STRIP)
    return R.permute(1, 5, 0, 2, 6, 7, 3, 4)


def _padded(R: Tensor, rows: int, columns: int) -> Tensor:
    more = (rows - R.shape[2], columns - R.shape[3])
    return torch.nn.functional.pad(R, (0, more[1], 0, more[0])) if any(more) else R
