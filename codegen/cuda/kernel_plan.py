"""The plan of one direction's CUDA kernel: what every kind of plan has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple, Self

from ...cellspec.cell import CellSpec
from ..derive import Pointwise
from ..shape import Direction, Dtype, Reverse, Save
from .cost.estimate import StepEstimate
from .limits import Limits
from .mma import WARP

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": blocks of a launch
# along y and along z. Along x there may be 2^31 - 1, more than any GPU has memory for.
MOST_BLOCKS = 65535


class LaunchShape(NamedTuple):
    """The blocks of a kernel, as its launch needs them.

    Attributes:
        threads: threads per block.
        shared: bytes of dynamic shared memory per block.
        cluster: blocks per cluster; 1 for no clusters.
        waits_for: which blocks wait for each other: none, those of a cluster, or all of a launch.
    """

    threads: int
    shared: int = 0
    cluster: int = 1
    waits_for: Literal["none", "cluster", "all"] = "none"


class BufferBytes(NamedTuple):
    """The GPU memory that a launch needs besides the tensors of its call.

    Attributes:
        per_step: bytes per step.
        fixed: bytes for any number of steps.
    """

    per_step: int = 0
    fixed: int = 0


class Scalar(NamedTuple):
    """The C++ types of a number in memory and in registers, and how exact its functions are."""

    element: str
    real: str
    accuracy: str


_SCALARS: dict[Dtype, Scalar] = {
    "bfloat16": Scalar("struct bfloat16", "float", "kBfloat16"),
    "float16": Scalar("struct float16", "float", "kFloat16"),
    "float32": Scalar("float", "float", "kExact"),
    "float64": Scalar("double", "double", "kExact"),
}


_AGREED = ("arch", "dtype", "tf32", "save", "reverse", "masked")


@dataclass(frozen=True, kw_only=True)
class KernelPlan(ABC):
    """Plan by which one direction of a cell is compiled and launched: one translation unit.

    A subclass is a kind of plan, and its `kind` is the word that asks for it. Batch and length are
    run-time values.

    Attributes:
        direction: which of the two directions.
        arch: the GPU architecture, as the CUDA compiler names it.
        dtype: of all tensors.
        estimate: of the time per step, for the shape that the plan was found for; not compared.
        binding: the constraint that a larger head would break.
        tf32: whether float32 products may round to tf32.
        save: whether the forward saves gates for the backward, or only states.
        reverse: which heads run from the last step to the first; no size depends on it.
        wavefront: whether its kernel hands over chunks of steps between layers.
        masked: whether batch rows have lengths and resets; no size depends on it.
        resets: whether values after a reset differ between steps, and then whether the kernel has
            them ready before each step or loads them where rows restart.
        reset_shared: bytes of shared memory, besides `shared`, in which it has them ready.
    """

    kind: ClassVar[str]
    headers: ClassVar[str] = "cuda/lib"
    more_functions: ClassVar[str] = "cuda/functions"
    # The folder of the header of cells with loops, if these compute several units at once.
    lanes: ClassVar[str | None] = None
    linked: ClassVar[tuple[str, ...]] = ()
    # Functions of the table that the CUDA headers write themselves. They are passed to a forward,
    # so a kernel chooses how exact they are.
    provided: ClassVar[frozenset[str]] = frozenset({"sigmoid"})
    passed: ClassVar[frozenset[str]] = provided
    hoists: ClassVar[bool] = False  # whether kernels compute once per unit what params give alone
    early_sums: ClassVar[bool] = False  # whether its backward is derived so; see `derive`
    gradients_in_place: ClassVar[bool] = True  # what was saved of a step has been read by then
    provided_to_stages: ClassVar[frozenset[str]] = frozenset({"rsqrt"})  # besides, to such cells
    looks_ahead: ClassVar[Literal["never", "unmasked", "always"]] = "never"  # see `stage_tables`
    steps_per_launch: ClassVar[Literal["all", "one"]] = "all"

    direction: Direction
    arch: str
    dtype: Dtype
    estimate: StepEstimate = field(default=StepEstimate(), compare=False)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"
    reverse: Reverse = False
    wavefront: bool = False
    masked: bool = False
    resets: Literal["constant", "ahead", "late"] = "constant"
    reset_shared: int = 0

    @property
    def nanoseconds(self) -> int:
        """The estimated time per step."""
        return self.estimate.total

    @property
    def cost(self) -> int:
        """Time that compares plans: `nanoseconds` with a part of the time before a first step."""
        return self.estimate.cost

    @property
    def template(self) -> str:
        """The name of the template of its source."""
        return f"cuda/{self.kind}.cu.jinja"

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in its source."""
        return (self.direction,)

    @property
    def scalar(self) -> Scalar:
        """The C++ types of its numbers."""
        return _SCALARS[self.dtype]

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the translation unit."""
        return (f"rnnc_{self.direction}",)

    @property
    def agreed(self) -> dict[str, object]:
        """By name, the values that the other direction's plan must have too."""
        values = {n: getattr(self, n) for n in _AGREED}
        return {**values, "steps per launch": self.steps_per_launch}

    @property
    def cut(self) -> tuple[int, ...]:
        """Sizes in which the plan cuts the batch, which both directions of a like pair share."""
        return ()

    def as_compiled(self) -> Self:
        """The plan without what its source does not depend on: equal for equal sources."""
        return replace(self, estimate=StepEstimate(), binding="")

    def reset_bytes(self, cell: CellSpec) -> int | None:
        """Bytes of shared memory for the values after a reset of all steps in flight.

        Args:
            cell: the cell.

        Returns:
            None where a kernel of this kind has them ready before no step.
        """
        return None

    @property
    def gates_again(self) -> bool:
        """True if its kernel computes again from inputs what the forward did not save."""
        return False

    def for_template(self, pointwise: Pointwise) -> dict[str, object]:
        """Values for the template of this kind of plan alone: a mapping from names to values."""
        return {}

    def with_more_registers(self, limits: Limits) -> Self | None:
        """The same plan for a kernel that spills: a thread has more registers, or less to keep.

        None if there is no such plan.

        Args:
            limits: the GPU.
        """
        return None

    def batch_tiles(self, batch: int) -> int:
        """The number of parts into which the plan cuts the batch.

        Args:
            batch: rows of the call.
        """
        return 1

    def parts_of_sums(self, batch: int, steps: int) -> int:
        """Return how many partial sums a backward writes of each bias, param and diagonal weight.

        Args:
            batch: rows of the call.
            steps: of the call.
        """
        return self.batch_tiles(batch)

    def parts_of_resets(self, steps: int) -> int:
        """Return the partial sums per row that a backward writes for gradients of reset values."""
        return 1

    def waiting_blocks(self, batch: int, heads: int) -> int:
        """Return how many blocks of a launch wait for each other, if all do; else 0.

        Args:
            batch: rows of the call.
            heads: of the call.
        """
        return 0

    def buffer_bytes(self, batch: int, heads: int) -> BufferBytes:
        """The GPU memory that a launch needs besides the tensors of its call.

        Args:
            batch: rows of the call.
            heads: of the call.
        """
        return BufferBytes()

    def brief(self, backward: Self) -> str:
        """In a few words, what distinguishes a pair of plans of this kind from other pairs.

        Args:
            backward: the plan of the other direction, of the same kind.
        """
        return self.kind

    @property
    @abstractmethod
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""

    @property
    @abstractmethod
    def mapping(self) -> str:
        """Which blocks compute which rows, in words."""

    @property
    @abstractmethod
    def sizes(self) -> str:
        """The sizes that the kernel is compiled with, in words."""

    def __str__(self) -> str:
        binds = f"; binds: {self.binding}" if self.binding else ""
        takes = f"; about {self.nanoseconds} ns per step" if self.nanoseconds else ""
        return f"{self.mapping}; {self.sizes}{takes}{binds}"


@dataclass(frozen=True, kw_only=True)
class ResidentPlan(KernelPlan):
    """One kernel runs all steps and keeps R on the chip, or as much of it as fits.

    Attributes:
        head_dim: units per head.
        rows: batch rows that share a block, a cluster or a group of blocks.
        warps: warps per block.
        registers: registers per thread that the compiler may use.
        shared: bytes of shared memory per block.
    """

    head_dim: int
    rows: int
    warps: int
    registers: int
    shared: int

    def batch_tiles(self, batch: int) -> int:
        """The number of tiles of `rows` batch rows."""
        return math.ceil(batch / self.rows)

    @property
    def threads(self) -> int:
        """Threads per block."""
        return WARP * self.warps

    @property
    def launch_shape(self) -> LaunchShape:
        """The blocks, as a launch needs them."""
        return LaunchShape(self.threads, self.shared + self.reset_shared)

    @property
    def agreed(self) -> dict[str, object]:
        """By name, the values that the other direction's plan must have too."""
        return {**super().agreed, "head_dim": self.head_dim}
