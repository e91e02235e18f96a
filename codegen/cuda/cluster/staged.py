"""Needs of a cluster for the stages of a cell: bytes of shared memory, and accumulators."""

from __future__ import annotations

import math
from collections import Counter

from ...shape import Dtype
from ..mma import TILE_N, WARP
from ..stage_bytes import ONE_NUMBER
from ..stage_tables import StageTables

_SUM_BYTES = 4  # of a part of a product
_WORD_BYTES = 4  # of a number of a head
_BUFFERS = 2  # of each exchange
_BARRIER_BYTES = 16  # two mbarriers


def odd_sources(tables: StageTables) -> int:
    """Return how many sources have an odd number of gates: two warps share a tile of each.

    Args:
        tables: the stages of a direction.
    """
    return sum(len(source.pairs) % 2 for source in tables.sources)


def sums_at_once(tables: StageTables, dtype: Dtype) -> int:
    """Accumulators per thread of the stage of a forward that has the most.

    Args:
        tables: the stages of a forward.
        dtype: of R.
    """
    tiles = Counter[int]()
    for source in tables.sources:
        tiles[source.stage] += math.ceil(len(source.pairs) / 2)
    # The same numbers as accumulators_of in the kernel.
    each = {count: 4 if count == 1 and dtype != "float32" else 2 for count in tiles.values()}
    return max((count * n for count, n in each.items()), default=0)


def sources_at_once(tables: StageTables) -> int:
    """Return how many sources the stage of a backward has that has the most.

    Args:
        tables: the stages of a backward.
    """
    return max(Counter(source.stage for source in tables.sources).values(), default=0)


def barrier_bytes(tables: StageTables) -> int:
    """Bytes for the mbarriers of exchanges within a step.

    Args:
        tables: the stages of a direction.
    """
    return _BARRIER_BYTES * tables.meetings


def part_bytes(tables: StageTables) -> int:
    """Bytes for what one warp, or one block of the cluster, knows of the numbers of a head.

    Args:
        tables: the stages of a direction.
    """
    stages = {statistic.stage for statistic in tables.statistics}
    words = sum(_record_words(tables, stage) for stage in stages)
    return _BUFFERS * words * _WORD_BYTES * TILE_N


def _record_words(tables: StageTables, stage: int) -> int:
    """The same number as record_words in lib/stages/cluster/statistics.cuh."""
    words = 0
    for statistic in tables.statistics:
        if statistic.stage == stage:
            own = 1 if statistic.kind in ONE_NUMBER else 2
            words = own * math.ceil(words / own) + own
    unit = 2 if words <= 2 else 4
    return unit * math.ceil(words / unit)


def shared_tile_bytes(tables: StageTables, splits: int) -> int:
    """Bytes through which the warps of 16 units add the parts of tiles that they share.

    Args:
        tables: the stages of a forward.
        splits: warps that share K of the same units.
    """
    takers, sharers, columns = min(splits, 2), 2 * splits, 2 if splits == 1 else 1
    return odd_sources(tables) * 2 * takers * sharers * WARP * columns * _SUM_BYTES
