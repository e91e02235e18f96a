"""The plans of blocks and clusters, which compute one head of one tile of batch rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ...constrint import Solution
from ..shape import Direction, Shape
from .kernel_plan import MOST_BLOCKS, ResidentPlan
from .limits import KIB, Limits
from .mma import WARP
from .stage_tables import StageTables

# Of the registers that the constraints leave to a kernel the compiler uses 0.6 to 0.99.
_USED_REGISTERS = 0.9
#: Registers per thread that the compiler may always use: with fewer, kernels spill.
_ENOUGH_REGISTERS = 128


@dataclass(frozen=True, kw_only=True)
class TiledPlan(ResidentPlan):
    """A block or a cluster computes one head of one tile of batch rows, with R in registers.

    Attributes:
        ahead: steps between the load of a step's inputs and their use.
        blocks_per_multiprocessor: blocks that share an SM; the compiler leaves registers for them.
        resident: blocks that share an SM at most, by the registers that the kernel probably uses.
        matrix_registers: registers per thread that hold R.
    """

    most_heads: ClassVar[int] = MOST_BLOCKS  # heads per launch

    ahead: int
    blocks_per_multiprocessor: int
    matrix_registers: int
    resident: int = 1

    @classmethod
    def of(
        cls,
        found: Solution,
        shape: Shape,
        limits: Limits,
        direction: Direction,
        threads: int,
        **sizes: Any,
    ) -> Self:
        """The plan that a solution of the constraints stands for, without its estimate.

        Args:
            found: the solution.
            shape: what the plan is for.
            limits: the GPU.
            direction: which of the two kernels.
            threads: per block, for which registers are allocated.
            sizes: of this kind of plan, and `rows`.
        """
        kib = WARP * found["warps"] * found["matrix"] * 4 // KIB
        used = math.ceil(_USED_REGISTERS * found["registers"])
        resident = limits.blocks_per_multiprocessor(found["warps"], used, found["shared"])
        return cls(
            direction=direction,
            arch=limits.arch,
            dtype=shape.dtype,
            binding=f"registers: {kib} KiB of {limits.registers * 4 // KIB} KiB hold R",
            head_dim=shape.head_dim,
            warps=found["warps"],
            registers=limits.registers_for(threads * found["blocks"]),
            shared=found["shared"],
            ahead=found["ahead"],
            blocks_per_multiprocessor=found["blocks"],
            matrix_registers=found["matrix"],
            resident=max(resident, found["blocks"]),
            **sizes,
        )

    def with_more_registers(self, limits: Limits) -> Self | None:
        """The same plan with one block less per SM, but at least one.

        Args:
            limits: the GPU.
        """
        blocks = self.blocks_per_multiprocessor - 1
        if not blocks:
            return None
        return replace(self._for_blocks(blocks, limits), resident=blocks)

    def for_resident_blocks(self, limits: Limits) -> Self:
        """The same plan, whose compiler leaves registers for the blocks that it counts with.

        A kernel that has few blocks may take more registers than it needs, and a loop makes the
        compiler do so: it keeps what the passes read.

        Args:
            limits: the GPU.
        """
        most = limits.registers // (self.threads * _ENOUGH_REGISTERS)
        blocks = max(self.blocks_per_multiprocessor, min(self.resident, most))
        return self._for_blocks(blocks, limits)

    def _for_blocks(self, blocks: int, limits: Limits) -> Self:
        registers = limits.registers_for(self.threads * blocks)
        return replace(self, registers=registers, blocks_per_multiprocessor=blocks)

    @property
    def matrix_kib(self) -> float:
        """KiB of R that a block holds in its registers."""
        return self.threads * self.matrix_registers * 4 / KIB

    @abstractmethod
    def staged_bytes(self, tables: StageTables) -> int:
        """Bytes of shared memory that a cell without stages does not need.

        Args:
            tables: the stages of the plan's direction.
        """

    @abstractmethod
    def grid(self, heads: int, tiles: int) -> tuple[int, int, int]:
        """The blocks of a launch, in x, y and z.

        Args:
            heads: of the launch.
            tiles: of batch rows, of the launch.
        """
