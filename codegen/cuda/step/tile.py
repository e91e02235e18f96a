"""The tiles of a single step that multiplies by matrix instructions: sizes of a block."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ....cellspec.cell import CellSpec
from ...layout import layout_of
from ...shape import Dtype, Shape
from ..kernel_plan import MOST_BLOCKS
from ..limits import KIB, Limits
from ..mma import K_TILE_BYTES, TILE_M, TILE_N, WARP

_WARPS = 8
# Of a step whose kernels multiply. Sums of more gates find no registers. With more multiplications
# the library's larger tiles read less than its launches cost.
MOST_GATES = 12
MOST_WORK = 2**33


@dataclass(frozen=True)
class Tile:
    """The sizes of a block.

    Attributes:
        row_tiles: tiles of 16 batch rows per warp.
        row_warps: warps that share the batch rows.
        unit_warps: warps that share the units, 8 each.
        slices: warps that share K.
        k_tiles: of a stage.
        stages: of the copies to shared memory.
        shared: bytes of shared memory of a block.
        aligned: whether all lines of factors and weights begin at multiples of 16 bytes.
    """

    row_tiles: int
    row_warps: int
    unit_warps: int
    slices: int
    k_tiles: int
    stages: int
    shared: int
    aligned: bool = True

    @property
    def rows(self) -> int:
        """Batch rows."""
        return TILE_M * self.row_tiles * self.row_warps

    @property
    def units(self) -> int:
        """Units of a head."""
        return TILE_N * self.unit_warps

    @property
    def threads(self) -> int:
        """Threads."""
        return WARP * self.row_warps * self.unit_warps * self.slices

    def blocks(self, batch: int, heads: int, dim: int) -> tuple[int, int, int]:
        """The blocks of a launch, in x, y and z.

        Args:
            batch: rows of the call.
            heads: of the call.
            dim: units per head.
        """
        return heads * math.ceil(dim / self.units), math.ceil(batch / self.rows), 1

    @classmethod
    def of(cls, cell: CellSpec, row_tiles: int, row_warps: int, unit_warps: int) -> Tile:
        """The tile of a cell with 8 warps; those that share no rows and no units share K.

        Args:
            cell: the cell.
            row_tiles: as the attribute.
            row_warps: as the attribute.
            unit_warps: as the attribute.
        """
        slices = max(1, _WARPS // (row_warps * unit_warps))
        k_tiles = max(2, slices)
        sizes = row_tiles, row_warps, unit_warps, slices, k_tiles
        layout, bare = layout_of(cell), cls(*sizes, 0, 0)
        matrices = max(1, len(layout.input_gates), *layout.source_pairs)
        lines = bare.rows + matrices * bare.units
        stage = k_tiles * (lines + 1) * K_TILE_BYTES
        stages = max(2, min(_MOST_STAGES, _SHARED // stage))
        sums = slices * len(layout.gates) * bare.rows * bare.units * 4
        return replace(bare, stages=stages, shared=max(stages * stage, sums))


def has_instructions(dtype: Dtype, tf32: bool) -> bool:
    """Return True if matrix instructions multiply numbers of a dtype.

    Args:
        dtype: of the numbers.
        tf32: whether products of float32 may round their factors to TF32.
    """
    return dtype in ("bfloat16", "float16") or (dtype == "float32" and tf32)


def has_aligned_lines(shape: Shape, size: int) -> bool:
    """Return True if the lines of all factors and weights begin at multiples of 16 bytes.

    Args:
        shape: of a layer.
        size: features of the module's input.
    """
    return (math.gcd(shape.head_dim, size) * shape.element_bytes) % 16 == 0


def multiplications(cell: CellSpec, shape: Shape, size: int) -> int:
    """Of the products of a step of the largest layer.

    Args:
        cell: the cell.
        shape: of a layer; its batch is that of the call.
        size: features of the module's input.
    """
    layout, units = layout_of(cell), shape.heads * shape.head_dim
    columns = len(layout.input_gates) * max(size, units)
    columns += len(layout.dense_gates) * shape.head_dim
    return shape.batch * units * columns


def best_tile(cell: CellSpec, shape: Shape, size: int, limits: Limits, tf32: bool) -> Tile | None:
    """The tile of a step; None where another way takes less time, or there is none.

    The size is that of the module's input.

    On an H200 the tile so found is the fastest of eight for an LSTM in bfloat16 with 128 to 1024
    units and 16 to 512 rows, or takes 1 us more. An LSTM of 512 units and 128 rows takes 7.8 us. By
    two products of the library and a kernel it takes 8.2 us, and the host 40 us longer; with 512
    rows 18.6 and 12.0 us.
    """
    layout, work = layout_of(cell), multiplications(cell, shape, size)
    if shape.batch < _LEAST_ROWS or not work or work > MOST_WORK:
        return None
    if not has_instructions(shape.dtype, tf32) or len(layout.gates) > MOST_GATES:
        return None
    # The smallest blocks that all run at once: they have most warps for each part of the sum.
    tiles = _TILES if len(layout.gates) <= _FEW_GATES else _TILES_OF_MANY_GATES
    found = None
    for sizes in tiles:
        tile = Tile.of(cell, *sizes)
        blocks, rows, _ = tile.blocks(shape.batch, shape.heads, shape.head_dim)
        if rows > MOST_BLOCKS or tile.shared > limits.shared_per_block:
            continue
        found = tile
        if blocks * rows <= _BLOCKS_AT_ONCE * limits.multiprocessors:
            break
    return found and replace(found, aligned=has_aligned_lines(shape, size))


# More stages gain nothing; two blocks of so many bytes share a multiprocessor of an H200.
_MOST_STAGES = 4
_SHARED = 80 * KIB
_LEAST_ROWS = 9
_FEW_GATES = 5  # with two tiles of rows per warp, whose sums all are in registers
_BLOCKS_AT_ONCE = 2  # per multiprocessor
# Tiles of rows per warp, warps that share rows, and warps that share units.
_TILES = ((1, 1, 1), (2, 1, 1), (2, 1, 2), (2, 2, 2), (2, 2, 4))
_TILES_OF_MANY_GATES = ((1, 1, 1), (1, 2, 1), (1, 2, 2), (1, 4, 2))
