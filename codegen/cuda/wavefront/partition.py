"""The part of a GPU that the layers of a wavefront run on, and what is left to everything else.

A partition is a green context of the driver: kernels on its streams run on its multiprocessors
alone. All other kernels, such as the products between layers, may run on any multiprocessor. So a
layer that waits cannot hold a multiprocessor outside its partition.
"""

from __future__ import annotations

import math

# Multiprocessors by which the driver divides a GPU: CUDA Driver API, cuDevSmResourceSplitByCount.
STEP = 8
# Blocks of the largest cluster that needs no special partition: CUDA C++ Programming Guide,
# "Thread Block Clusters".
PORTABLE_CLUSTER = 8
# Blocks of a cluster of a product between layers, at most.
PRODUCT_CLUSTER = 2
# Blocks of a collective of NCCL, which may wait for other GPUs while they hold a multiprocessor
# each.
_COLLECTIVE = 32
# Multiprocessors of a group that shares clusters, at least: an H200 has 132 in 8 groups.
_GROUP = 12
# The part of a GPU that the layers leave to others, at least.
_FREE_PART = 4


def least_free(multiprocessors: int) -> int:
    """Return the multiprocessors that no layer may take, so that what a layer waits for finds room.

    They hold a collective and, beside it, a cluster of a product, wherever the blocks of both lie:
    if each group but one lacks a single multiprocessor for the cluster, the last one has it.

    Args:
        multiprocessors: of the GPU.

    Example:
        >>> from rnnc.codegen.cuda.wavefront.partition import least_free
        >>> least_free(132)
        44
    """
    groups = math.ceil(multiprocessors / _GROUP)
    product = groups * (PRODUCT_CLUSTER - 1) + 1
    return max(_COLLECTIVE + product, math.ceil(multiprocessors / _FREE_PART))


def partition_sizes(multiprocessors: int) -> range:
    """Return the sizes of the partitions that layers may have, in multiprocessors.

    Args:
        multiprocessors: of the GPU.

    Example:
        >>> from rnnc.codegen.cuda.wavefront.partition import partition_sizes
        >>> list(partition_sizes(132))[-1]
        88
    """
    return range(STEP, multiprocessors - least_free(multiprocessors) + 1, STEP)


def clusters_in(size: int, cluster: int, per_multiprocessor: int) -> int:
    """Return how many clusters of a kernel a partition holds at once, at least.

    The driver reports as many or more; an H200 with driver 580 reports just these for partitions of
    40 multiprocessors or more (`cuOccupancyMaxActiveClusters`, 2026-11-24).

    Args:
        size: of the partition, in multiprocessors.
        cluster: blocks per cluster; 1 for a kernel without clusters.
        per_multiprocessor: blocks that share a multiprocessor.

    Example:
        >>> from rnnc.codegen.cuda.wavefront.partition import clusters_in
        >>> clusters_in(64, 1, 3), clusters_in(64, 8, 3), clusters_in(64, 16, 1)
        (192, 24, 3)
    """
    if cluster <= PORTABLE_CLUSTER:
        return STEP * per_multiprocessor // cluster * (size // STEP)
    # Larger clusters need groups of 16 multiprocessors. A partition has some incomplete ones.
    groups = max(size // STEP - 1, 2 if size >= 2 * STEP else 0) // 2
    return groups * per_multiprocessor
