"""Plans of blocks all over the chip that share a head and exchange through L2."""

from __future__ import annotations

from dataclasses import dataclass

from .shape import Dtype, Save, counted

TILE_ROWS = 8  # batch rows of a tile: the N side of the matrix instructions
CHUNK_BYTES = 64  # of K, a row
SLOT_CHUNK_BYTES = TILE_ROWS * CHUNK_BYTES


@dataclass(frozen=True)
class GridKernel:
    """One direction of a `GridPlan`: the sizes that its kernel is compiled with.

    Attributes:
        blocks: that share a head and a group of batch rows.
        cluster: neighbours among them that share K and add their sums through each other's shared
            memory; 1 for none.
        units: of a block.
        warps: of a block; they share K.
        chunks: of K that a warp multiplies.
        register_chunks: of those, how many lie in registers; the others lie in shared memory.
        exchange_chunks: of 64 bytes a row that all blocks of a head publish in a step.
        matrix_registers: registers of a thread that hold R.
        registers: registers of a thread that the compiler may use.
        shared: bytes of shared memory of a block.
    """

    blocks: int
    cluster: int
    units: int
    warps: int
    chunks: int
    register_chunks: int
    exchange_chunks: int
    matrix_registers: int
    registers: int
    shared: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps

    def __str__(self) -> str:
        clusters = f", clusters of {self.cluster} share K" if self.cluster > 1 else ""
        return (
            f"{counted(self.blocks, 'block')} of {self.units} units{clusters};"
            f" {counted(self.warps, 'warp')} of {counted(self.chunks, 'chunk')} of K,"
            f" {self.register_chunks} in registers; {self.registers} registers a thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory"
        )


@dataclass(frozen=True)
class GridPlan:
    """Blocks all over the chip share a head: R in registers and shared memory, h through L2.

    All blocks of a launch are on the chip at once, and wait for each other's data. Batch and length
    are run-time.

    Attributes:
        arch: the GPU architecture, as the compiler names it.
        dtype: of all tensors.
        head_dim: units of a head.
        rows: batch rows of a group of blocks, a multiple of 8.
        groups: groups of blocks, a head, that fit the chip at once; more batch takes turns.
        forward: sizes of the forward kernel.
        backward: sizes of the backward kernel.
        phases: parts of a group's rows that take turns in a step: while what one published is on
            its way, the next is multiplied.
        nanoseconds: estimates of a step, forward and backward, where a shape was given.
        binding: the constraint that a larger head would break.
        tf32: whether float32 products may round to tf32.
        save: whether the forward keeps gates for the backward, or only states.
    """

    arch: str
    dtype: Dtype
    head_dim: int
    rows: int
    groups: int
    forward: GridKernel
    backward: GridKernel
    phases: int = 1
    nanoseconds: tuple[int, int] = (0, 0)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"

    @property
    def kernels(self) -> dict[str, GridKernel]:
        """The sizes of each kernel by its name in the source."""
        return {"rnnc_forward": self.forward, "rnnc_backward": self.backward}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the source."""
        return tuple(self.kernels)

    @property
    def _in_phases(self) -> str:
        return f", in {self.phases} phases" if self.phases > 1 else ""

    def __str__(self) -> str:
        return (
            f"grid ({self.arch}, {self.dtype}, head dim {self.head_dim}):"
            f" blocks all over the chip share a head and {self.rows} batch rows,"
            f" {counted(self.groups, 'group')} at once{self._in_phases}\n"
            f"  forward:  {self.forward}; about {self.nanoseconds[0]} ns a step\n"
            f"  backward: {self.backward}; about {self.nanoseconds[1]} ns a step\n"
            f"  keeps {self.save} for the backward; binds: {self.binding}"
        )
