"""The table of constants, fitted on an H200, and how other GPUs use it."""

from __future__ import annotations

from types import MappingProxyType

from ..limits import Limits
from .constants import (
    BlockConstants,
    ChipConstants,
    ClusterConstants,
    FusedConstants,
    GpuConstants,
    GridConstants,
    LibraryConstants,
    PerDirection,
    ScanConstants,
    WalkConstants,
)

# NVIDIA H200, CUDA 13.0, 2026-11-22: fitted to 994 kernels of `rnnc bench --users --plans`, LSTM,
# GRU and Elman, 32 to 1024 units, batch 1 to 512, 1 to 256 steps, and to the 16 rows of
# `rnnc bench`. The median error is 5 to 9 % (docs/notebook.md).
H200 = GpuConstants(
    fitted_on="H200",
    chip=ChipConstants(float32=10, memory_bandwidth=4300),
    block=BlockConstants(
        exchange=PerDirection(109, 238),
        warp=PerDirection(5.5, 3.8),
        matrix=PerDirection(2.9, 2.9),
        chain=PerDirection(18, 23),
        operation=PerDirection(4.6, 3.65),
        exact=PerDirection(5.3, 1.5),
        gate=PerDirection(0, 77),
        further_warp=PerDirection(43, 63),
        start=PerDirection(2370, 2400),
        load=PerDirection(19.5, 85),
    ),
    cluster=ClusterConstants(
        exchange=PerDirection(100, 166),
        size=MappingProxyType(
            {
                2: PerDirection(111, 86),
                3: PerDirection(49, 66),
                4: PerDirection(58, 33),
                6: PerDirection(25, 15),
                8: PerDirection(0, 0),
                12: PerDirection(11, 9),
                16: PerDirection(24, 15),
            }
        ),
        # Of GRU (reset first), LEM and a normed LSTM at 3 x 256 on an H100 (2026-11-27), bfloat16.
        called=PerDirection(100, 78),
        statistics=PerDirection(280, 70),
        part=PerDirection(0, 12),
        # LEM, which saves five values of two bytes, beside the GRU, on an H100 (2026-11-27).
        store=10,
        received=PerDirection(48.9, 34.2),
        matrix=PerDirection(3.2, 4.5),
        chain=PerDirection(0.4, 0.7),
        chain_float32=PerDirection(1.85, 1.55),
        each_warp=PerDirection(12.6, 21.3),
        operation=PerDirection(6.3, 5.3),
        exact=PerDirection(2.7, 1),
        gate=PerDirection(0, 135),
        split=PerDirection(138, 0),
        start=PerDirection(3050, 5400),
        load=PerDirection(13.5, 17.8),
    ),
    # The step was fitted to 71 forward and 147 backward kernels of LSTM, GRU, sLSTM and Elman,
    # 1 x 512 to 1 x 2048, batch 2 to 64, within 3 and 6 % in the mean (2026-11-21). None streamed.
    grid=GridConstants(
        hop=PerDirection(686, 886),
        gather=PerDirection(16.4, 14.1),
        block=PerDirection(0.56, 0),
        sector=PerDirection(155, 91),
        cluster_hop=MappingProxyType({1: 0, 2: 163, 4: 334, 8: 407, 16: 410}),
        matrix=PerDirection(2.4, 5.55),
        chain=PerDirection(6.7, 9.45),
        chain_tf32=PerDirection(4.9, 0),
        warp=PerDirection(14.2, 5.1),
        cluster_warp=20.4,
        item=PerDirection(100, 320),
        operation=PerDirection(3.35, 2.3),
        phase=PerDirection(320, 870),
        start=PerDirection(2850, 470),
        load=PerDirection(55, 90),
        l2_bandwidth=5500,
        memory_bandwidth=4300,
    ),
    library=LibraryConstants(
        start=PerDirection(11000, 15000), launch=1500, product=2800, l2_bandwidth=3000
    ),
    fused=FusedConstants(
        start=PerDirection(14000, 17000),
        hop=1500,
        overlapped_hop=700,
        chain=700,
        exchange=300,
        block_bandwidth=40,
        l2_bandwidth=5000,
    ),
    # Chains of 502 kernels of eight cells on an H100 (2026-11-26), the rest of 20 kernels of seven
    # cells there (2026-11-27); bandwidth as the part of a copy's.
    walk=WalkConstants(
        chain=30,
        function=60,
        exact_function=2.3,
        warp=12,
        item=5,
        operation=PerDirection(1.6, 1.05),
        exact=PerDirection(8, 7),
        shared=PerDirection(0.82, 1.12),
        bandwidth=0.9,
        start=PerDirection(3000, 3000),
    ),
    # Of HGRN, minGRU, minLSTM, QRNN, LRU and RG-LRU on an H100 (2026-11-27), bfloat16.
    scan=ScanConstants(
        value=PerDirection(0.17, 0.14),
        entry=PerDirection(0.08, 0.2),
        sum=0.05,
        exact=2,
        hop=450,
        value_in_order=PerDirection(0.1, 0.105),
        parts=PerDirection(1.1, 1.22),
        turn=50,
        link=PerDirection(2.5, 5),
        bandwidth=0.9,
        start=PerDirection(8000, 8000),
        start_in_order=5000,
    ),
)
FITTED = {constants.fitted_on: constants for constants in (H200,)}


def constants_for(limits: Limits) -> GpuConstants:
    """The constants for a GPU: those that were fitted on it, or else the H200's.

    The formulas scale with what `Limits` knows: SMs, their registers and shared memory, the L2
    cache and clusters. Clocks and bandwidths of another GPU are taken to be the H200's, so its
    estimates rank plans but do not forecast times.

    Args:
        limits: the GPU.

    Example:
        >>> from rnnc.codegen.cuda.cost.fitted import constants_for
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> constants_for(limits_of("A100")).fitted_on
        'H200'
    """
    return FITTED.get(_name(limits), H200)


def is_fitted(limits: Limits) -> bool:
    """Return True if the constants for a GPU were fitted on it.

    Args:
        limits: the GPU.
    """
    return _name(limits) in FITTED


def _name(limits: Limits) -> str:
    """The GPU's name, without the vendor that drivers put before it."""
    return limits.name.removeprefix("NVIDIA ")
