"""Time of the tiles of a call, in the time of a tile that runs all steps."""

from __future__ import annotations

import heapq
import math

from ...shape import Shape

_MOST_COUNTED = 4096  # tiles of all heads: of more, no single one matters


def waves_of(shape: Shape, tiles: int, places: int) -> float:
    """Return how often all places are filled with tiles, until the last tile ends.

    Tiles start in the order of their batch rows, each at the place that is free first. Where rows
    come in the order of their lengths, later tiles are shorter.

    Args:
        shape: of the call.
        tiles: of batch rows, of each head.
        places: tiles that run at once, of any heads.
    """
    count = shape.heads * tiles
    if shape.fill == 1 or count > _MOST_COUNTED:
        return max(math.ceil(count / places) * shape.fill, 1)
    ends = [0.0] * min(places, count)
    for tile in range(tiles):
        for _ in range(shape.heads):
            heapq.heapreplace(ends, ends[0] + longest_of(shape, tile / tiles))
    return max(ends)


def launches_of(shape: Shape, launches: int) -> float:
    """The same for launches one after the other, of nearly as many batch rows each.

    Args:
        shape: of the call.
        launches: their number.
    """
    if shape.fill == 1:
        return launches
    return sum(longest_of(shape, launch / launches) for launch in range(launches))


def longest_of(shape: Shape, part: float) -> float:
    """The length of the row behind a part of all rows, in that of the longest.

    Lengths are assumed to fall as a power of the part; its exponent follows from their mean.

    Args:
        shape: of the call.
        part: of the rows, from 0 to 1.
    """
    return math.pow(1 - part, 1 / shape.fill - 1)
