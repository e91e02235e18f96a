"""Exchanges among blocks of a grid within a step: k-tiles of products, parts of statistics."""

from __future__ import annotations

import math

from ...derive import Pointwise
from ...layout import layout_of
from ...shape import Direction
from ..mma import K_TILE_BYTES, WARP
from ..stage_bytes import ONE_NUMBER
from ..stage_tables import StageTables, stage_tables

_VECTOR_WORDS, _VECTOR_BYTES = 4, 16


def exchanged_k_tiles(
    pointwise: Pointwise, direction: Direction, dim: int, dim_k_tiles: int, units: int
) -> int:
    """The k-tiles per row that all blocks of a head publish in a step.

    Args:
        pointwise: of the cell.
        direction: which of the two kernels.
        dim: units per head.
        dim_k_tiles: k-tiles of a value of all units.
        units: per block.
    """
    tables, layout = stage_tables(pointwise, direction), layout_of(pointwise.cell)
    if tables is None:
        return dim_k_tiles * len(layout.sources if direction == "forward" else layout.pair_gates)
    factors = len(tables.sources if direction == "forward" else tables.pairs)
    return dim_k_tiles * factors + _statistic_k_tiles(tables, dim, units)


def _statistic_k_tiles(tables: StageTables, dim: int, units: int) -> int:
    """Those that parts of statistics fill: `GridStatistics` in lib/stages/grid/statistics.cuh."""
    parts = math.ceil(dim / min(units & -units, WARP))  # lanes of one row share a part
    vectors = 0
    for stage in {statistic.stage for statistic in tables.statistics}:
        own = [statistic.kind for statistic in tables.statistics if statistic.stage == stage]
        words = sum(1 if kind in ONE_NUMBER else 2 for kind in own)
        vectors += parts * math.ceil(words / _VECTOR_WORDS)
    return math.ceil(vectors * _VECTOR_BYTES / K_TILE_BYTES)


def exchanges(tables: StageTables | None) -> tuple[int, int]:
    """Return how often blocks of a head wait for each other in a step: in all, and for products.

    Args:
        tables: the stages of a direction; None for a cell without.
    """
    if tables is None:
        return 1, 1
    products = {source.stage for source in tables.sources}
    all_stages = products | {statistic.stage for statistic in tables.statistics}
    # What a first stage publishes that waits for nothing is on its way along with the states.
    early = tables.direction == "forward" and not tables.first_stage_waits and {0, 1} <= all_stages
    return len(all_stages) - early, len(products)
