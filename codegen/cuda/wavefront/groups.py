"""Wavefronts: layers that run at the same time, each a chunk of steps behind the one before it.

A layer's kernel runs all steps. Between two layers a matrix product turns a chunk of the results of
one into the input of the other, on multiprocessors that no layer may use. How many layers run at
once follows from the room of the largest partition that they may have.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..kernel_plan import KernelPlan
from ..tiled_plan import TiledPlan
from .partition import clusters_in, partition_sizes

# Steps per chunk. A product of fewer rows leaves much of the chip idle.
_FEWEST_STEPS, _FEWEST_OF_LARGE_BATCHES, _MOST_STEPS = 64, 32, 256
_LARGE_BATCH = 64  # rows
_MOST_CHUNKS, _FEWEST_CHUNKS = 8, 4
# Operations per ns and multiprocessor of a product between layers.
_PRODUCT_SPEED = {"bfloat16": 4300.0, "float16": 4300.0, "float32": 350.0, "float64": 350.0}
_TF32_SPEED = 2200.0
# What a further block on a multiprocessor adds to the time of a step.
_SHARED_STEP = 0.15
# The host's time for a wavefront, and for each of its products, in ns.
_HOST_CALL, _HOST_PRODUCT = 100_000, 10_000
# What a group takes besides: its start, and the first and last product of each of its layers.
_GROUP = 220_000


class Chip(NamedTuple):
    """A GPU as the layers of a wavefront see it.

    Attributes:
        multiprocessors: of the GPU.
        per_multiprocessor: blocks of a layer's kernel that share a multiprocessor.
    """

    multiprocessors: int
    per_multiprocessor: int


class LayerSizes(NamedTuple):
    """The sizes of a call of several layers, each between two others.

    Attributes:
        layers: of the call.
        steps: of the call.
        batch: rows.
        heads: of a layer.
        inputs: features of the layer before, which the product reads.
        gates: that take input.
    """

    layers: int
    steps: int
    batch: int
    heads: int
    inputs: int
    gates: int


class Wavefront(NamedTuple):
    """Groups in which the layers of a call run, at the same time within a group.

    Attributes:
        groups: how many layers run at once, in the order of computation; all ones where they run
            one after the other.
        partition: multiprocessors of the partition that the layers of a group run on; 0 where they
            run one after the other.
        nanoseconds: the estimated time.
    """

    groups: tuple[int, ...]
    partition: int
    nanoseconds: float


def chunk_steps(steps: int, batch: int) -> int | None:
    """Steps per chunk of a call; None where it is too short for chunks.

    Args:
        steps: of the call.
        batch: rows.

    Example:
        >>> from rnnc.codegen.cuda.wavefront.groups import chunk_steps
        >>> chunk_steps(1024, 16), chunk_steps(8192, 16), chunk_steps(200, 16)
        (128, 256, None)
    """
    fewest = _FEWEST_STEPS if batch < _LARGE_BATCH else _FEWEST_OF_LARGE_BATCHES
    chunk = min(max(steps // _MOST_CHUNKS // 16 * 16, fewest), _MOST_STEPS)
    return chunk if steps >= _FEWEST_CHUNKS * chunk else None


def layer_blocks(plan: KernelPlan, batch: int, heads: int) -> int:
    """The blocks of a layer's kernel.

    Args:
        plan: of one direction, block or cluster.
        batch: rows of the call.
        heads: of the call.
    """
    return plan.launch_shape.cluster * heads * plan.batch_tiles(batch)


def storing_warps(plan: TiledPlan) -> int:
    """Warps per block that store results: of those that share K, the first two.

    Args:
        plan: of one direction.
    """
    splits: int = getattr(plan, "splits", 1)
    return plan.warps // splits * min(splits, 2)


def wavefronts(
    plan: KernelPlan, sizes: LayerSizes, chip: Chip, chunk: int
) -> tuple[Wavefront, list[Wavefront]]:
    """The estimate for layers one after the other, and each wavefront that there is room for.

    All layers of a group fit its partition together, and the rest of the GPU has room for whatever
    they wait for.

    Args:
        plan: of the layers' kernels.
        sizes: of the call.
        chip: the GPU.
        chunk: steps per chunk.
    """
    cluster = plan.launch_shape.cluster
    blocks = layer_blocks(plan, sizes.batch, sizes.heads)
    product = _product_time(plan, sizes)
    one = sizes.steps * plan.nanoseconds
    time = sizes.layers * (one + product / chip.multiprocessors)
    alone = Wavefront((1,) * sizes.layers, 0, time)
    found = []
    for size in range(2, sizes.layers + 1):
        groups = _groups(sizes.layers, size)
        if groups[0] != size:
            continue
        for partition in partition_sizes(chip.multiprocessors):
            if clusters_in(partition, cluster, chip.per_multiprocessor) * cluster < size * blocks:
                continue
            used = min(size * blocks, partition)
            free = chip.multiprocessors - used
            step = plan.nanoseconds * (1 + _SHARED_STEP * (size * blocks / used - 1))
            time = product / chip.multiprocessors
            for place, group in enumerate(groups, 1):
                steps = sizes.steps + (group - 1) * chunk
                # One behind each layer that another one follows.
                products = group - (place == len(groups))
                time += max(steps * step, products * product / free) + _GROUP
            found.append(Wavefront(groups, partition, time))
    return alone, found


def gains(alone: Wavefront, other: Wavefront, sizes: LayerSizes, chunk: int) -> bool:
    """Return True if a wavefront is faster, the host's time for its launches included.

    Args:
        alone: the layers one after the other.
        other: the wavefront.
        sizes: of the call.
        chunk: steps per chunk.
    """
    products = (sizes.layers - 1) * math.ceil(sizes.steps / chunk)
    return alone.nanoseconds - other.nanoseconds > _HOST_CALL + products * _HOST_PRODUCT


def _groups(layers: int, most: int) -> tuple[int, ...]:
    """Layers in as few groups as `most` allows, whose sizes differ by one at most."""
    count = math.ceil(layers / most)
    small, larger = divmod(layers, count)
    return (small + 1,) * larger + (small,) * (count - larger)


def _product_time(plan: KernelPlan, sizes: LayerSizes) -> float:
    """The time of a product between two layers, on one multiprocessor."""
    speed = _TF32_SPEED if plan.tf32 else _PRODUCT_SPEED[plan.dtype]
    rows = sizes.steps * sizes.batch
    return 2 * rows * sizes.inputs * sizes.inputs * sizes.gates / speed
