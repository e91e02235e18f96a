"""Plans: how a cell is mapped onto a machine. A plan's type is its variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..cellspec.errors import RnncError

Dtype = Literal["float32", "float64", "bfloat16", "float16"]
ELEMENT_BYTES: dict[Dtype, int] = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2}

Save = Literal["gates", "states"]
SAVES: tuple[Save, ...] = ("gates", "states")


class PlanError(RnncError):
    """The caller asked for a plan that does not exist: names the constraint that binds."""


@dataclass(frozen=True)
class CpuPlan:
    """One C++ kernel for a batch of sequences on the CPU's cores.

    Sizes, strides and threads are run-time values, so one binary serves all of them.

    Attributes:
        dtype: the scalar type of all tensors. float64 is the same text with another type, so that
            a gradient check in float64 tests the code that ships in float32.
    """

    dtype: Dtype = "float32"

    @property
    def scalar(self) -> str:
        """The C++ type of a number."""
        return {"float32": "float", "float64": "double"}[self.dtype]

    def __str__(self) -> str:
        return (
            f"CPU, {self.dtype}: one task a (head, tile of batch rows); recurrent matrices packed"
            " once a call; pointwise maps vectorised over units"
        )


@dataclass(frozen=True)
class Shape:
    """The sizes of a call: B batch rows, T steps, N heads, D units a head, and the dtype.

    Raises:
        PlanError: a size is not positive, or the dtype is unknown.

    Example:
        >>> from rnnc.codegen.plan import Shape
        >>> print(Shape(heads=12, head_dim=64))
        12 x 64, batch 16, 1024 steps, bfloat16
    """

    heads: int
    head_dim: int
    batch: int = 16
    steps: int = 1024
    dtype: Dtype = "bfloat16"

    def __post_init__(self) -> None:
        for word in ("heads", "head_dim", "batch", "steps"):
            number = getattr(self, word)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise PlanError(
                    f"shape\n  found:  {word}={number!r}\n"
                    f"  wanted: a whole number, at least 1\n  write:  {word}=1"
                )
        if self.dtype not in ELEMENT_BYTES:
            raise PlanError(
                f"shape\n  found:  dtype={self.dtype!r}\n"
                f"  wanted: one of {', '.join(ELEMENT_BYTES)}\n"
                f'  write:  dtype="bfloat16"'
            )

    @property
    def element_bytes(self) -> int:
        """Bytes of a number in memory."""
        return ELEMENT_BYTES[self.dtype]

    def __str__(self) -> str:
        return (
            f"{self.heads} x {self.head_dim}, batch {self.batch}, {self.steps} steps, {self.dtype}"
        )


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

    def __str__(self) -> str:
        return (
            f"{_counted(self.warps, 'warp')}, {self.registers} registers a thread"
            f" ({self.matrix_registers} hold R), {self.shared} bytes of shared memory,"
            f" data sent for {self.ahead} steps ahead,"
            f" {_counted(self.blocks_per_multiprocessor, 'block')} an SM"
        )


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


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


@dataclass(frozen=True)
class AlternatingPlan:
    """A matrix product by the library and a pointwise kernel each step: any head dim, any dtype.

    Steps are captured in a CUDA graph by the chunk, so that launches do not bind. All sizes are
    run-time.

    Attributes:
        arch: the GPU architecture, as the compiler names it.
        dtype: of all tensors.
        chunk: steps of a graph.
        threads: of a block of the pointwise kernels, one a unit and batch row.
        nanoseconds: estimates of a step, forward and backward.
        binding: why no plan keeps R on chip, where one was asked for.
        tf32: whether float32 products may round to tf32.
        save: whether the forward keeps gates for the backward, or only states.
    """

    arch: str
    dtype: Dtype
    chunk: int = 32
    threads: int = 128
    nanoseconds: tuple[int, int] = (0, 0)
    binding: str = ""
    tf32: bool = False
    save: Save = "gates"

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The entry points of the source."""
        steps = [f"rnnc_{d}_{part}" for d in ("forward", "backward") for part in ("begin", "step")]
        return (*steps, "rnnc_backward_end", "rnnc_advance")

    def __str__(self) -> str:
        return (
            f"alternating ({self.arch}, {self.dtype}): a matrix product and a pointwise kernel a"
            f" step, {self.chunk} steps a CUDA graph\n"
            f"  forward:  about {self.nanoseconds[0]} ns a step\n"
            f"  backward: about {self.nanoseconds[1]} ns a step\n"
            f"  keeps {self.save} for the backward"
            + (f"; not on chip: {self.binding}" if self.binding else "")
        )


CudaPlan = BlockPlan | AlternatingPlan
Plan = CpuPlan | CudaPlan

Variant = Literal["auto", "block", "alternating"]
VARIANTS: tuple[Variant, ...] = ("auto", "block", "alternating")
