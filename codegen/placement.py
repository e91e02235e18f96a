"""Where a fused kernel keeps the recurrent matrix: the problem, stated once over ConstrINT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..cellspec.errors import RnncError
from ..constrint import Model, Solution, Unsatisfiable
from .limits import PRESETS, Limits
from .shape import ELEMENT_BYTES, Dtype

# The dtypes with matrix instructions.
_DTYPES: tuple[Dtype, ...] = ("bfloat16", "float16", "float32")

# R is cut into tiles of 16 rows by 64 bytes, the A operand of two matrix instructions of 2-byte
# elements (or of four of tf32): 1 KiB, eight registers of each lane of a warp.
TILE_ROWS = 16
TILE_BYTES = 1024
_TILE_REGISTERS = 8
_TILE_WIDTH_BYTES = 64

# The batch is the N side of the matrix instructions.
BATCH_TILE = 8

# Addresses, prefetched inputs, the fragment of h and temporaries of the pointwise function.
_WORKING_REGISTERS = 48

# Larger than any chip of the presets has room for, with one gate of 2 bytes.
_LARGEST_DIM = 16384


class PlacementError(RnncError):
    """The caller asked for the placement of something that no kernel computes."""


@dataclass(frozen=True)
class Placement:
    """A way to keep R on chip: a solution of the placement problem.

    Attributes:
        gpu: the GPU's name.
        gates: gates of the cell.
        dtype: the type of R and h.
        heads: heads of the network, each with blocks of its own.
        head_dim: units of a head.
        blocks: blocks that share the units of a head.
        groups: groups of blocks that share the batch.
        batch_tiles: tiles of 8 batch rows that a block takes.
        warps: warps of a block; they share the inner dimension.
        units: units of a block.
        register_tiles: tiles of R that each warp keeps in registers.
        shared_tiles: tiles of R that each warp keeps in shared memory.
        registers: registers of a thread, an estimate.
        shared: bytes of shared memory of a block.
    """

    gpu: str
    gates: int
    dtype: str
    heads: int
    head_dim: int
    blocks: int
    groups: int
    batch_tiles: int
    warps: int
    units: int
    register_tiles: int
    shared_tiles: int
    registers: int
    shared: int

    def __str__(self) -> str:
        kept = self.register_tiles + self.shared_tiles
        return (
            f"{self.gpu}: {self.heads} x {self.head_dim}, {self.gates} gates, {self.dtype}:"
            f" {self.groups} x {self.blocks} blocks a head of {self.warps} warps and"
            f" {self.units} units; {self.register_tiles} of {kept} tiles a warp in registers"
            f" ({self.registers} a thread), {self.shared} bytes of shared memory a block"
        )


def placement_problem(
    limits: Limits, gates: int, dtype: str = "bfloat16", heads: int = 1, batch: int = 8
) -> Model:
    """The constraints on a fused kernel that keeps R on chip, for a head dim to be found.

    Rows of R are gate-interleaved, so that a block keeps all gates of its units: 8 units a granule
    where two gates fill a tile's 16 rows, and 16 where the number of gates is odd. Warps split the
    inner dimension; their partial sums meet in shared memory, double-buffered.

    Args:
        limits: the GPU.
        gates: gates of the cell.
        dtype: bfloat16, float16 or float32.
        heads: heads, each with its own blocks; all must be resident at once.
        batch: batch rows.

    Returns:
        A model with the variables `head_dim`, `blocks`, `groups`, `batch_tiles`, `warps`, `units`,
        `row_tiles`, `register_tiles`, `shared_tiles`, `registers` and `shared`.

    Raises:
        PlacementError: the dtype is unknown, or a number is not positive.

    Example:
        >>> from rnnc.codegen.limits import limits_of
        >>> from rnnc.codegen.placement import placement_problem
        >>> m = placement_problem(limits_of("H200"), gates=4)
        >>> m.require(m["head_dim"] == 5000, "head dim")
        >>> print(m.relax("head dim").moves[0].bound)
        2048
    """
    element = _element_bytes(dtype)
    for word, number in (("gates", gates), ("heads", heads), ("batch", batch)):
        if number < 1:
            raise PlacementError(
                f"placement\n  found:  {word}={number}\n  wanted: at least 1\n  write:  {word}=1"
            )
    width = _TILE_WIDTH_BYTES // element
    granule = BATCH_TILE if gates % 2 == 0 else TILE_ROWS
    m = Model()
    head_dim = m.int("head_dim", width, _LARGEST_DIM)
    blocks = m.int("blocks", 1, limits.multiprocessors)
    groups = m.int("groups", 1, limits.multiprocessors)
    batch_tiles = m.int("batch_tiles", [1, 2, 4])
    warps = m.int("warps", [4, 8, 16])
    units = m.int("units", granule, _LARGEST_DIM)
    row_tiles = m.int("row_tiles", 1, gates * _LARGEST_DIM // TILE_ROWS)
    register_tiles = m.int("register_tiles", 0, limits.registers_per_thread // _TILE_REGISTERS)
    shared_tiles = m.int("shared_tiles", 0, limits.shared_per_block // TILE_BYTES)
    registers = m.int("registers", 1, limits.registers_per_thread)
    shared = m.int("shared", 0, limits.shared_per_block)

    m.require(blocks * units >= head_dim, "all units have a block")
    m.require((blocks - 1) * units < head_dim, "no block without units")
    m.require(units % granule == 0, "whole granules of units")
    m.require(head_dim % (warps * width) == 0, "warps share the inner dimension in whole tiles")
    m.require(row_tiles * TILE_ROWS == gates * units, "rows of a block")
    m.require(
        row_tiles * head_dim == (register_tiles + shared_tiles) * warps * width,
        "every tile of R is kept",
    )
    m.require(
        registers
        == _WORKING_REGISTERS + _TILE_REGISTERS * register_tiles + 4 * row_tiles * batch_tiles,
        "registers of a thread",
    )
    m.require(32 * warps * registers <= limits.registers, "registers of a block")
    m.require(
        shared
        == TILE_BYTES * warps * shared_tiles
        + 2 * 4 * TILE_ROWS * BATCH_TILE * warps * row_tiles * batch_tiles,
        "shared memory of a block",
    )
    m.require(groups * batch_tiles * BATCH_TILE >= batch, "all of the batch")
    m.require((groups - 1) * batch_tiles * BATCH_TILE < batch, "no group without rows")
    m.require(heads * groups * blocks <= limits.multiprocessors, "all blocks are resident at once")
    return m


def largest_head_dim(
    limits: Limits, gates: int, dtype: str = "bfloat16", heads: int = 1, batch: int = 8
) -> Placement | None:
    """The largest head dim that a fused kernel keeps on chip; None if not even one tile fits.

    The arguments and errors are those of `placement_problem`.

    Example:
        >>> from rnnc.codegen.limits import limits_of
        >>> from rnnc.codegen.placement import largest_head_dim
        >>> largest_head_dim(limits_of("A100"), gates=4).head_dim
        1664
    """
    m = placement_problem(limits, gates, dtype, heads, batch)
    try:
        found = m.solve(prefer=[m["head_dim"].largest, m["blocks"].largest, m["warps"].largest])
    except Unsatisfiable:
        return None
    return _placement(limits, gates, dtype, heads, found)


@dataclass(frozen=True)
class LargestHeadDims:
    """The table of largest head dims: a row for each GPU, a column for each number of gates.

    Attributes:
        dtype: the type of R and h.
        gates: the columns.
        rows: for each GPU its limits and, for each column, the placement or None.
    """

    dtype: str
    gates: tuple[int, ...]
    rows: tuple[tuple[Limits, tuple[Placement | None, ...]], ...]

    def __str__(self) -> str:
        lines = ["GPU".ljust(10) + "".join(f"{g} gates".rjust(10) for g in self.gates)]
        for limits, placements in self.rows:
            cells = (str(p.head_dim) if p else "-" for p in placements)
            lines.append(limits.name.ljust(10) + "".join(cell.rjust(10) for cell in cells))
        return "\n".join(lines)


def largest_head_dims(
    gates: Sequence[int] = (1, 3, 4),
    dtype: str = "bfloat16",
    gpus: Sequence[Limits] = PRESETS,
    batch: int = 8,
) -> LargestHeadDims:
    """The largest head dim of a fused kernel on each GPU, for one head.

    Source: FlashRNN (Pöppel, Beck, Hochreiter, ICLR 2025) reports such a table for its kernels.

    Raises:
        PlacementError: the dtype is unknown, or a number is not positive.

    Example:
        >>> from rnnc.codegen.limits import limits_of
        >>> from rnnc.codegen.placement import largest_head_dims
        >>> print(largest_head_dims(gpus=[limits_of("A100"), limits_of("H200")]))
        GPU          1 gates   3 gates   4 gates
        A100            3456      1664      1664
        H200            4224      2048      2048
    """
    rows = tuple(
        (limits, tuple(largest_head_dim(limits, g, dtype, batch=batch) for g in gates))
        for limits in gpus
    )
    return LargestHeadDims(dtype, tuple(gates), rows)


def _element_bytes(dtype: str) -> int:
    if dtype not in _DTYPES:
        names = ", ".join(_DTYPES)
        raise PlacementError(
            f"placement\n  found:  dtype={dtype!r}\n  wanted: one of {names}\n"
            f'  write:  dtype="bfloat16"'
        )
    return ELEMENT_BYTES[dtype]


def _placement(limits: Limits, gates: int, dtype: str, heads: int, s: Solution) -> Placement:
    named = {name: value for name, value in s.items() if name != "row_tiles"}
    return Placement(gpu=limits.name, gates=gates, dtype=dtype, heads=heads, **named)
