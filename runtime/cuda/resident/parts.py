"""Launches of a large call of a block or cluster plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ....codegen.cuda.kernel_plan import MOST_BLOCKS
from ....codegen.cuda.tiled_plan import TiledPlan


class Launch(NamedTuple):
    """Launch of a call; its first blocks compute `first_head` and `first_tile` of batch rows."""

    grid: tuple[int, int, int]
    first_tile: int = 0
    first_head: int = 0


def launches(plan: TiledPlan, heads: int, tiles: int) -> Iterator[Launch]:
    """Yield the launches of a call of a block or cluster plan, nearly always one.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.runtime.cuda.resident.parts import launches
        >>> plan = plan_for(rnnc.cells.lstm, Shape(1, 64), limits_of("H200"), "block")
        >>> [(part.grid, part.first_tile) for part in launches(plan.forward, 3, 65_537)]
        [((3, 65535, 1), 0), ((3, 2, 1), 65535)]
    """
    for head, some_heads in _parts(heads, plan.most_heads):
        for tile, some_tiles in _parts(tiles, MOST_BLOCKS):
            yield Launch(plan.grid(some_heads, some_tiles), tile, head)


def _parts(count: int, most: int) -> list[tuple[int, int]]:
    """Return the parts that a launch takes at once: the first of each, and how many it has."""
    return [(i, min(most, count - i)) for i in range(0, count, most)]
