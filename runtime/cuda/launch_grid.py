"""The blocks that a resident kernel is launched with, and the launches of a large call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ...codegen.cuda.block.plan import BlockPlan
from ...codegen.cuda.cluster.plan import ClusterPlan
from ...codegen.cuda.grid.plan import GridPlan
from ...codegen.cuda.kernel_plan import KernelPlan, ResidentPlan

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": blocks of a launch
# along y and along z. Along x there may be 2^31 - 1, more than any GPU has memory for.
MOST_BLOCKS = 65535


class Launch(NamedTuple):
    """One launch of a call.

    Attributes:
        grid: blocks in x, y and z.
        first_tile: the tile of batch rows that its first blocks compute.
        first_head: the head that they compute.
    """

    grid: tuple[int, int, int]
    first_tile: int = 0
    first_head: int = 0


def batch_tiles(plan: KernelPlan, batch: int) -> int:
    """The number of parts into which a plan cuts the batch."""
    return math.ceil(batch / plan.rows) if isinstance(plan, ResidentPlan) else 1


def parts_of_sums(plan: KernelPlan, batch: int) -> int:
    """How many partial sums a backward writes of each bias, param and diagonal weight.

    One per tile of batch rows; a grid plan's threads have one row each, and write one per row.
    """
    return batch if isinstance(plan, GridPlan) else batch_tiles(plan, batch)


def blocks_of(plan: BlockPlan | ClusterPlan, heads: int, tiles: int) -> tuple[int, int, int]:
    """The blocks of a launch, in x, y and z.

    Args:
        plan: the plan.
        heads: of the launch.
        tiles: of batch rows, of the launch.
    """
    if isinstance(plan, BlockPlan):
        return heads, tiles, 1
    return plan.cluster, heads, tiles


def launches(plan: BlockPlan | ClusterPlan, heads: int, tiles: int) -> Iterator[Launch]:
    """The launches of a call of a block or cluster plan; nearly always one.

    Args:
        plan: the plan.
        heads: of the call.
        tiles: of batch rows, of the call.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> from rnnc.codegen.shape import Shape
        >>> from rnnc.runtime.cuda.launch_grid import launches
        >>> plan = plan_for(rnnc.cells.lstm, Shape(1, 64), limits_of("H200"), "block")
        >>> [(part.grid, part.first_tile) for part in launches(plan.forward, 3, 65_537)]
        [((3, 65535, 1), 0), ((3, 2, 1), 65535)]
    """
    along_x = isinstance(plan, BlockPlan)  # as the heads of a block plan lie
    for head, some_heads in [(0, heads)] if along_x else _parts(heads):
        for tile, some_tiles in _parts(tiles):
            yield Launch(blocks_of(plan, some_heads, some_tiles), tile, head)


def _parts(count: int) -> list[tuple[int, int]]:
    """Parts that a launch takes along y or z: the first of each, and how many it has."""
    return [(i, min(MOST_BLOCKS, count - i)) for i in range(0, count, MOST_BLOCKS)]
