"""Bytes of shared memory that numbers of a head take, in kernels of cells with stages."""

from __future__ import annotations

import math

from .stage_tables import StageTables

#: Kinds of statistics whose parts have one number; those of others have two.
ONE_NUMBER = ("mean", "total")
_NUMBER_BYTES = 4  # of a number of a head
_ACCESS_BYTES = 16  # what lies behind the numbers is aligned to it


def part_bytes(tables: StageTables, rows: int) -> int:
    """Bytes of shared memory for what a warp knows of each number of a head.

    Args:
        tables: the stages of a direction.
        rows: batch rows per block.
    """
    return len(tables.statistics) * rows * 2 * _NUMBER_BYTES


def number_bytes(tables: StageTables, rows: int) -> int:
    """Bytes of shared memory for the numbers of heads that a step of the backward reads.

    Args:
        tables: the stages of a direction.
        rows: batch rows per block.
    """
    saved = len(tables.numbers) if tables.direction == "backward" else 0
    return _ACCESS_BYTES * math.ceil(saved * rows * _NUMBER_BYTES / _ACCESS_BYTES)
