"""Plans of one block a head and a few batch rows."""

from __future__ import annotations

from dataclasses import dataclass

from .shape import Dtype, Save, counted


@dataclass(frozen=True)
class BlockKernel:
    """One direction of a `BlockPlan`: the sizes that its kernel is compiled with.

    Attributes:
        warps: warps of a block.
        ahead: steps that data is sent for before its use.
        blocks_per_multiprocessor: how many blocks share an SM's registers.
        matrix_registers: registers of a thread that hold R.
        registers: registers of a thread that the compiler may use.
        shared: bytes of shared memory of a block.
    """

    warps: int
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
            f"{counted(self.warps, 'warp')}, {self.registers} registers a thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory,"
            f" data sent for {self.ahead} steps ahead,"
            f" {counted(self.blocks_per_multiprocessor, 'block')} an SM"
        )


@dataclass(frozen=True)
class BlockPlan:
    """One block a head and 4 or 8 batch rows: R in registers, h through shared memory.

    No block waits for another. Batch and length are run-time: one binary serves all.

    Attributes:
        arch: the GPU architecture, as the compiler names it.
        dtype: of all tensors.
        head_dim: units of a head.
        rows: batch rows of a block, 4 or 8.
        unit_groups: groups of 8 units that a warp of the forward owns.
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
    unit_groups: int
    forward: BlockKernel
    backward: BlockKernel
    nanoseconds: tuple[int, int] = (0, 0)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"

    @property
    def kernels(self) -> dict[str, BlockKernel]:
        """The sizes of each kernel by its name in the source."""
        return {"rnnc_forward": self.forward, "rnnc_backward": self.backward}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the source."""
        return tuple(self.kernels)

    def __str__(self) -> str:
        return (
            f"block ({self.arch}, {self.dtype}, head dim {self.head_dim}):"
            f" one block a head and {self.rows} batch rows, R in registers\n"
            f"  forward:  {self.forward}; about {self.nanoseconds[0]} ns a step\n"
            f"  backward: {self.backward}; about {self.nanoseconds[1]} ns a step\n"
            f"  keeps {self.save} for the backward; binds: {self.binding}"
        )
