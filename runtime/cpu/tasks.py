"""Division of a call among threads."""

from __future__ import annotations

import math
from functools import lru_cache

import torch

from ...cellspec.cell import CellSpec
from ..call.facts import facts_of
from .arguments import Sizes


def sizes_of(steps: int, batch: int, heads: int, dim: int, pairs: int) -> Sizes:
    """Return the sizes of a call and its tasks; `pairs` are matrices that a kernel multiplies."""
    return _sizes(steps, batch, heads, dim, pairs, torch.get_num_threads())


def parted_pairs(cell: CellSpec) -> int:
    """Return the matrices of a cell whose units may be divided among tasks; 0 for no parts.

    Units of a step with stages exchange values within it, so a task has all units of a head.
    """
    return 0 if cell.has_stages else facts_of(cell).counts.dense


@lru_cache(maxsize=1024)
def _sizes(steps: int, batch: int, heads: int, dim: int, pairs: int, threads: int) -> Sizes:
    parts = unit_parts(batch, heads, dim, pairs, threads) if steps > 1 else 1
    part = dim if parts == 1 else math.ceil(dim / parts / _PANEL) * _PANEL
    rows = tile_rows(batch, heads, threads) if parts == 1 else max(batch, 1)
    return Sizes(steps, batch, heads, dim, rows, part, threads)


# Rows of features for which packing the weights of the input costs more than it saves, and how many
# weights are packed in the time of a few calls of torch.
_FEW_FEATURES = 16
_FEW_WEIGHTS = 2**16


def multiplies_features(steps: int, batch: int, weights: int) -> bool:
    """Return True if a kernel multiplies the input too; otherwise torch does, for all steps.

    Where no backward follows, nobody reads these products again. So the kernel makes them for some
    steps at a time, in a core's cache. For LSTMs of 64 units with B = 32 and T = 512 that takes 0.6
    of the time. `weights` counts the weights of the input in a layer.
    """
    return steps > 1 and (steps * batch >= _FEW_FEATURES or weights <= _FEW_WEIGHTS)


# Units of a part are a multiple of it: of the panels of `product.h` on every processor.
_PANEL = 32
# Multiplications of a step above which it is worth two waits: a microsecond.
_WORTH_WAITING = 2**16
# Matrices of more bytes leave a core's cache when each thread reads all of them at every step.
_CACHED = 2**18


def unit_parts(batch: int, heads: int, dim: int, pairs: int, threads: int) -> int:
    """Return the number of parts of a head's units, which then wait for each other at every step.

    Each thread reads its part of R alone, where it would read all of R for its batch rows. On two
    threads an LSTM of 256 units with B = 8 takes 0.72 of the time, and 0.82 with B = 32; one of 512
    units with B = 1 takes 0.73. From B = 128 on the waits cost as much as is gained.
    """
    matrices = pairs * dim * dim
    few_rows = batch < 4 * threads
    large = 4 * matrices > _CACHED and batch <= 32 * threads
    if heads >= threads or matrices * batch < _WORTH_WAITING or not (few_rows or large):
        return 1
    return max(min(threads // heads, dim // _PANEL), 1)


def tile_rows(batch: int, heads: int, threads: int) -> int:
    """Return the rows of a task: as many as keep threads evenly busy, since each reads all of R."""

    def busy(rows: int) -> float:
        tasks = heads * math.ceil(batch / rows)
        return tasks / (threads * math.ceil(tasks / threads))

    sizes = [rows for rows in (64, 32, 16, 8, 4, 2, 1) if rows < 2 * max(batch, 1)]
    best = max(busy(rows) for rows in sizes) if batch else 1.0
    return next(rows for rows in sizes if not batch or busy(rows) >= 0.9 * best)
