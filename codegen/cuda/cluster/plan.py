"""Plans of a cluster of blocks a head and a few batch rows."""

from __future__ import annotations

from dataclasses import dataclass

from ...shape import counted
from ..resident_plan import FusedPlanBase


@dataclass(frozen=True)
class ClusterKernel:
    """One direction of a `ClusterPlan`: the sizes that its kernel is compiled with.

    Attributes:
        cluster: blocks that share a head and some batch rows.
        units: of a block.
        warps: of a block.
        splits: warps that share K of the same rows of R, and add their sums in shared memory; 1 in
            the backward, where warps share rows.
        ahead: steps that data is sent for before its use.
        blocks_per_multiprocessor: how many blocks share an SM's registers.
        matrix_registers: registers of a thread that hold R.
        registers: registers of a thread that the compiler may use.
        shared: bytes of shared memory of a block.
    """

    cluster: int
    units: int
    warps: int
    splits: int
    ahead: int
    blocks_per_multiprocessor: int
    matrix_registers: int
    registers: int
    shared: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps

    def __str__(self) -> str:
        return (
            f"{counted(self.cluster, 'block')} of {self.units} units;"
            f" {counted(self.warps, 'warp')}, {self.registers} registers a thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory"
        )


@dataclass(frozen=True, kw_only=True)
class ClusterPlan(FusedPlanBase[ClusterKernel]):
    """A cluster of blocks a head and a few batch rows: R in registers, h pushed to the peers.

    Clusters do not wait for each other. Batch and length are run-time: one binary serves all. The
    attributes are those of `FusedPlanBase`.
    """

    @property
    def mapping(self) -> str:
        """Who computes which rows, in words."""
        return f"a cluster of blocks a head and {self.rows} batch rows"
