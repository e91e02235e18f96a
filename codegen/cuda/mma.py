"""Sizes that all kinds of plans share: the matrix instructions' tiles, and parts of an SM."""

from __future__ import annotations

WARP = 32  # threads
SCHEDULERS = 4  # per SM; each issues one instruction of one of its warps per cycle
SECTOR_BYTES = 32  # the unit in which the L2 cache is written
RESERVED_SHARED = 1024  # bytes of shared memory that the system keeps per block

# The m16n8k16 instruction (PTX ISA, "mma.sync") multiplies a tile of M rows by one of N columns.
# Resident kernels have rows of R along M and batch rows along N; a fused step the other way round.
TILE_M = 16
TILE_N = 8
# Half of M. Two gates of the same units interleave in a tile, so plans count units in such groups.
GROUP_UNITS = TILE_M // 2

# A warp of a cluster's backward computes 4 units of all batch rows at a time: one item per thread.
ITEM_UNITS = WARP // TILE_N

# A k-tile is the part of K that a thread reads at once: in two-byte elements two instructions.
K_TILE_BYTES = 64
FRAGMENT_REGISTERS = 4  # per thread, that hold R for one instruction
K_TILE_REGISTERS = 2 * FRAGMENT_REGISTERS  # per thread, that hold TILE_M rows of a k-tile
EXCHANGE_ROW_BYTES = 128  # a row of an exchange buffer in shared memory is a multiple of it
