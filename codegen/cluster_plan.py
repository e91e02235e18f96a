"""Plans of a cluster of blocks a head and a few batch rows."""

from __future__ import annotations

from dataclasses import dataclass

from .shape import Dtype, Save, counted


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


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster of blocks a head and a few batch rows: R in registers, h pushed to the peers.

    Clusters do not wait for each other. Batch and length are run-time: one binary serves all.

    Attributes:
        arch: the GPU architecture, as the compiler names it.
        dtype: of all tensors.
        head_dim: units of a head.
        rows: batch rows of a cluster.
        forward: sizes of the forward kernel.
        backward: sizes of the backward kernel.
        nanoseconds: estimates of a step, forward and backward, where a shape was given.
        binding: the constraint that a larger head would break.
        tf32: whether float32 products may round to tf32.
        save: whether the forward keeps gates for the backward, or only states.
    """

    arch: str
    dtype: Dtype
    head_dim: int
    rows: int
    forward: ClusterKernel
    backward: ClusterKernel
    nanoseconds: tuple[int, int] = (0, 0)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"

    @property
    def kernels(self) -> dict[str, ClusterKernel]:
        """The sizes of each kernel by its name in the source."""
        return {"rnnc_forward": self.forward, "rnnc_backward": self.backward}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the source."""
        return tuple(self.kernels)

    def __str__(self) -> str:
        return (
            f"cluster ({self.arch}, {self.dtype}, head dim {self.head_dim}):"
            f" a cluster of blocks a head and {self.rows} batch rows\n"
            f"  forward:  {self.forward}; about {self.nanoseconds[0]} ns a step\n"
            f"  backward: {self.backward}; about {self.nanoseconds[1]} ns a step\n"
            f"  keeps {self.save} for the backward; binds: {self.binding}"
        )
