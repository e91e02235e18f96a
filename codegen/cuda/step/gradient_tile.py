"""The tiles of a single step's backward that multiplies by matrix instructions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....cellspec.cell import CellSpec
from ...layout import layout_of
from ...shape import Dtype, Shape
from ..kernel_plan import MOST_BLOCKS
from ..limits import Limits
from ..mma import TILE_M, TILE_N, WARP
from .tile import MOST_GATES, MOST_WORK, has_aligned_lines, has_instructions, multiplications

_WARPS = 8
_COLUMN_WARPS = 2
_WORD = 4  # bytes
_CHUNK_WORDS = 32  # of K
# Padding, as in the kernels.
_LINE_PAD, _COLUMN_PAD = 4, 8
_STAGES = 4


@dataclass(frozen=True)
class GradientTile:
    """The sizes of the blocks of two kernels: of the gradients of weights, and of inputs.

    Attributes:
        column_tiles: tiles of 8 columns of weights per warp; a block has 16 units.
        row_tiles: tiles of 16 batch rows per block.
        input_column_tiles: tiles of 8 columns of an input per warp.
        stages: of the copies to shared memory.
        shared: bytes of shared memory of a block.
        aligned: whether all lines of factors and weights begin at multiples of 16 bytes.
    """

    column_tiles: int
    row_tiles: int
    input_column_tiles: int
    stages: int
    shared: int
    aligned: bool = True

    @property
    def columns(self) -> int:
        """Columns of weights."""
        return TILE_N * self.column_tiles * _WARPS

    @property
    def input_columns(self) -> int:
        """Columns of an input."""
        return TILE_N * self.input_column_tiles * _COLUMN_WARPS

    @property
    def threads(self) -> int:
        """Threads."""
        return WARP * _WARPS

    def blocks(self, heads: int, dim: int, columns: Sequence[int]) -> tuple[int, int, int]:
        """The blocks of the gradients of weights, in x, y and z.

        Args:
            heads: of the call.
            dim: units per head.
            columns: of x, if the cell has an input, and of each state that R multiplies.
        """
        parts = sum(math.ceil(each / self.columns) for each in columns)
        return heads * math.ceil(dim / TILE_M), max(1, parts), 1

    def input_blocks(
        self, batch: int, heads: int, dim: int, size: int, sources: int
    ) -> tuple[int, int, int]:
        """The blocks of the gradients of inputs, in x, y and z.

        Args:
            batch: rows of the call.
            heads: of the call.
            dim: units per head.
            size: features of x; 0 where its gradient is not wanted.
            sources: how many states R multiplies; 0 where their gradients are not wanted.
        """
        columns = math.ceil(size / self.input_columns)
        columns += sources * heads * math.ceil(dim / self.input_columns)
        return columns, math.ceil(batch / (TILE_M * self.row_tiles)), 1

    @classmethod
    def of(
        cls, cell: CellSpec, dtype: Dtype, column_tiles: int, row_tiles: int, input_tiles: int
    ) -> GradientTile:
        """The tile of a cell.

        Args:
            cell: the cell.
            dtype: of all tensors.
            column_tiles: as the attribute.
            row_tiles: as the attribute.
            input_tiles: as `input_column_tiles`.
        """
        layout, bare = layout_of(cell), cls(column_tiles, row_tiles, input_tiles, _STAGES, 0)
        element = 4 if dtype == "float32" else 2
        chunk, line = _CHUNK_WORDS * _WORD // element, (_CHUNK_WORDS + _LINE_PAD) * _WORD
        factor = chunk * (bare.columns + _COLUMN_PAD) * element
        gates = len(layout.gates) * TILE_M * line
        sums = len(layout.bias) + len(layout.params) + len(layout.diagonal_gates)
        rows = TILE_M * row_tiles
        stage = rows * line + chunk * (bare.input_columns + _COLUMN_PAD) * element
        partials = _WARPS // _COLUMN_WARPS * rows * bare.input_columns * _WORD
        most = max(factor + gates, bare.threads * sums * _WORD, _STAGES * stage, partials)
        return replace(bare, shared=most)


def gradient_tile(
    cell: CellSpec, shape: Shape, size: int, limits: Limits, tf32: bool
) -> GradientTile | None:
    """The tile of a step's backward; None where another way takes less time, or there is none.

    The size is that of the module's input.
    """
    work, gates = multiplications(cell, shape, size), len(layout_of(cell).gates)
    if not work or work > MOST_WORK or gates > MOST_GATES:
        return None
    if not has_instructions(shape.dtype, tf32):
        return None
    sizes = _FOR_FEW_ROWS if shape.batch <= _FEW_ROWS else _SIZES
    if work > _MUCH_WORK and gates <= _FEW_GATES:
        sizes = _FOR_MUCH_WORK
    tile = GradientTile.of(cell, shape.dtype, *sizes)
    tile = replace(tile, aligned=has_aligned_lines(shape, size))
    fits = tile.shared <= limits.shared_per_block
    return tile if fits and shape.batch <= MOST_BLOCKS * TILE_M * tile.row_tiles else None


# Column tiles, row tiles and column tiles of inputs. Larger ones read less from L2; smaller ones
# keep more multiprocessors busy.
_FOR_FEW_ROWS, _SIZES, _FOR_MUCH_WORK = (1, 1, 2), (2, 2, 4), (4, 4, 4)
_FEW_ROWS = 32
_MUCH_WORK = 2**31  # multiplications
_FEW_GATES = 5  # whose sums all are in registers
