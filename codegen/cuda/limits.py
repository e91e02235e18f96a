"""The limits of GPUs, and presets with the source of each number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import RnncError
from .mma import RESERVED_SHARED, SCHEDULERS, WARP

KIB = 1024
MIB = 1024 * KIB

# The first compute capability with the kernels' matrix instructions and asynchronous copies: PTX
# ISA, "mma.sync" with .bf16 and .tf32, and "cp.async".
LEAST_CAPABILITY = (8, 0)
_WARPS_OF_SCHEDULER = 12  # at least: the table named below, "Maximum number of resident threads"


class UnknownGpuError(RnncError):
    """The caller named a GPU that has no preset."""


@dataclass(frozen=True)
class Limits:
    """The limits of a GPU that bound the plans of kernels.

    Attributes:
        name: the GPU.
        capability: its compute capability.
        multiprocessors: streaming multiprocessors (SMs).
        registers: 32-bit registers per SM.
        shared_per_block: bytes of shared memory that one block may ask for (opt-in maximum).
        shared_per_multiprocessor: bytes of shared memory per SM.
        l2: bytes of L2 cache.
        cluster: the most blocks per cluster, non-portable sizes included; 1 without clusters.
        threads_per_block: the most threads per block.
        registers_per_thread: the most registers per thread.

    Example:
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> print(limits_of("h200"))
        H200 (sm_90): 132 SMs, 64 K registers and 228 KiB shared memory each (227 KiB per block), 60 MiB L2, clusters of up to 16
    """  # noqa: E501 - the text that it really prints

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_per_block: int
    shared_per_multiprocessor: int
    l2: int
    cluster: int
    # The same for every capability from 8.0 to 12.0: CUDA C++ Programming Guide, "Compute
    # Capabilities", table "Technical Specifications per Compute Capability".
    registers: int = 64 * KIB
    threads_per_block: int = 1024
    registers_per_thread: int = 255

    @property
    def arch(self) -> str:
        """The GPU's architecture, as the CUDA compiler names it."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def registers_for(self, threads: int) -> int:
        """The most registers per thread if that many threads share an SM.

        Args:
            threads: of all blocks that an SM holds at once. Registers are allocated in eights.
        """
        return min(self.registers // threads // 8 * 8, self.registers_per_thread)

    def resident(self, cluster: int) -> int:
        """The most blocks that the chip holds at once, with one block per SM.

        All blocks of a cluster run in one group of SMs, and these groups differ in size: clusters
        of 4 and 8 use 120 of an H200's 132 SMs (cudaOccupancyMaxActiveClusters, 2026-11-21), and a
        group holds one cluster of more than 8: 7 of 12 or of 16 run at once. The same share is
        assumed for other GPUs; a launch asks the driver.

        Args:
            cluster: blocks per cluster; 1 for no clusters.
        """
        usable = self.multiprocessors if cluster < 4 else self.multiprocessors * 10 // 11
        return usable // (16 if cluster > 8 else cluster) * cluster

    def blocks_per_multiprocessor(self, warps: int, registers: int, shared: int) -> int:
        """The most blocks that one SM holds at once.

        Args:
            warps: of a block; a warp's registers are one scheduler's.
            registers: per thread, allocated in eights.
            shared: bytes of shared memory of a block.
        """
        allocated = 8 * math.ceil(registers / 8) * WARP
        of_scheduler = min(self.registers // SCHEDULERS // allocated, _WARPS_OF_SCHEDULER)
        return min(
            SCHEDULERS * of_scheduler // warps,
            self.shared_per_multiprocessor // (shared + RESERVED_SHARED),
        )

    def __str__(self) -> str:
        clusters = f"clusters of up to {self.cluster}" if self.cluster > 1 else "no clusters"
        return (
            f"{self.name} ({self.arch}): {self.multiprocessors} SMs,"
            f" {self.registers // KIB} K registers and"
            f" {self.shared_per_multiprocessor // KIB} KiB shared memory each"
            f" ({self.shared_per_block // KIB} KiB per block), {self.l2 // MIB} MiB L2, {clusters}"
        )


# Shared memory per block and per SM: CUDA C++ Programming Guide, the table named above ("Maximum
# amount of shared memory per SM", "... per thread block"; a block gets 1 KiB less than the SM has).
# Clusters: the same guide, "Thread Block Clusters": 8 is portable, 16 a non-portable size that
# compute capabilities 9.0 and 10.0 allow on request.
PRESETS: tuple[Limits, ...] = (
    # SMs and L2: "NVIDIA A100 Tensor Core GPU Architecture" white paper, table 4.
    Limits("A100", (8, 0), 108, 163 * KIB, 164 * KIB, 40 * MIB, 1),
    # SMs and L2 (SXM5): "NVIDIA H100 Tensor Core GPU Architecture" white paper, table 3.
    Limits("H100", (9, 0), 132, 227 * KIB, 228 * KIB, 50 * MIB, 16),
    # The same GH100 chip; L2 as cudaGetDeviceProperties reports it on an H200.
    Limits("H200", (9, 0), 132, 227 * KIB, 228 * KIB, 60 * MIB, 16),
    # L2: "NVIDIA Blackwell Tuning Guide". SMs: two dies of 74, as cudaGetDeviceProperties reports.
    Limits("B200", (10, 0), 148, 227 * KIB, 228 * KIB, 126 * MIB, 16),
    # "NVIDIA Ampere GA102 GPU Architecture" white paper, table 2: 82 SMs, 6144 KB L2.
    Limits("RTX 3090", (8, 6), 82, 99 * KIB, 100 * KIB, 6 * MIB, 1),
    # "NVIDIA Ada GPU Architecture" white paper, table 1: 128 SMs, 73728 KB L2.
    Limits("RTX 4090", (8, 9), 128, 99 * KIB, 100 * KIB, 72 * MIB, 1),
    # "NVIDIA RTX Blackwell GPU Architecture" white paper, table 2: 170 SMs, 98304 KB L2. Shared
    # memory as cudaGetDeviceProperties reports it: 102400 bytes per SM, 101376 per block.
    Limits("RTX 5090", (12, 0), 170, 99 * KIB, 100 * KIB, 96 * MIB, 8),
    # 7424 CUDA cores of the data sheet are 58 SMs of 128; L2 of the full AD104, 48 MB: the Ada
    # white paper.
    Limits("L4", (8, 9), 58, 99 * KIB, 100 * KIB, 48 * MIB, 1),
    # 18176 CUDA cores of the data sheet are 142 SMs of 128; L2 of the full AD102, 98304 KB: the
    # Ada white paper.
    Limits("L40S", (8, 9), 142, 99 * KIB, 100 * KIB, 96 * MIB, 1),
)


def limits_of(gpu: str) -> Limits:
    """The limits of a GPU by its name; case, spaces and dashes do not matter.

    Raises:
        UnknownGpuError: there is no preset of this name.

    Example:
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> limits_of("rtx4090").multiprocessors
        128
    """
    wanted = _plain(gpu)
    for limits in PRESETS:
        if _plain(limits.name) == wanted:
            return limits
    names = ", ".join(limits.name for limits in PRESETS)
    raise UnknownGpuError(
        f"GPU {gpu!r}",
        "no preset of this name",
        f"one of {names}",
        "one of these, or Limits(...) with the numbers of your GPU",
    )


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum()).removeprefix("nvidia")
