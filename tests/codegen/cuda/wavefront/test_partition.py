"""The room of layers and of what they wait for, for every wavefront that the planner can choose."""

from __future__ import annotations

from itertools import product

import pytest
import rnnc
from rnnc.codegen.cuda.limits import PRESETS
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.wavefront.groups import (
    Chip,
    LayerSizes,
    chunk_steps,
    layer_blocks,
    wavefronts,
)
from rnnc.codegen.cuda.wavefront.items import check_order, items_of
from rnnc.codegen.cuda.wavefront.partition import clusters_in, least_free, partition_sizes
from rnnc.codegen.shape import DIRECTIONS, PlanError, Shape

from ....one_stage import ONE_STAGE

GPUS = [limits for limits in PRESETS if limits.capability >= (9, 0)]
SHAPES = [(12, 64), (8, 64), (16, 64), (3, 256), (1, 512), (4, 32), (2, 128)]
BATCHES = (2, 16, 64)
LAYERS = range(2, 13)
COLLECTIVE = 32  # blocks

# `cuOccupancyMaxActiveClusters` on partitions of an H200, driver 580.159.04, 2026-11-24: blocks per
# cluster, blocks per multiprocessor, and clusters by the size of the partition.
MEASURED = {
    (1, 3): {16: 48, 40: 120, 64: 192, 88: 264},
    (2, 3): {16: 24, 40: 60, 64: 96, 88: 132},
    (4, 3): {16: 12, 40: 30, 64: 48, 88: 66},
    (8, 3): {16: 6, 40: 15, 64: 24, 88: 33},
    (16, 3): {16: 3, 24: 3, 32: 3, 40: 6, 48: 6, 56: 9, 64: 9, 72: 12, 80: 12, 88: 15},
    (8, 1): {16: 2, 40: 5, 64: 8, 88: 11},
    (16, 1): {16: 1, 24: 1, 32: 1, 40: 2, 48: 2, 56: 3, 64: 3, 72: 4, 80: 4, 88: 5},
}


@pytest.mark.parametrize(("kind", "by_size"), MEASURED.items(), ids=str)
def test_partitions_hold_what_the_driver_reports(kind, by_size):
    cluster, each = kind
    assert {size: clusters_in(size, cluster, each) for size in by_size} == by_size


@pytest.mark.parametrize("limits", GPUS, ids=lambda limits: limits.name)
def test_a_partition_leaves_room_for_a_collective_and_a_product(limits):
    chip = limits.multiprocessors
    for size in partition_sizes(chip):
        assert size % 8 == 0
        free = chip - size
        assert free >= least_free(chip) >= chip / 4
        # The worst place of the collective's blocks: one multiprocessor left per group, but for one
        # group with two, which a product's cluster of two finds.
        assert free - COLLECTIVE > chip / 16


def schedules(cells, limits, shapes, batches):
    """Every wavefront that the planner may choose, with the plan of its layers."""
    for cell, (heads, dim), batch in product(cells, shapes, batches):
        for kind in ("block", "cluster"):
            try:
                plans = plan_for(cell, Shape(heads, dim, batch, dtype="bfloat16"), limits, kind)
            except PlanError:
                continue
            for direction in DIRECTIONS:
                plan = getattr(plans, direction)
                blocks = layer_blocks(plan, batch, heads)
                chip = Chip(limits.multiprocessors, plan.resident)
                for layers in LAYERS:
                    sizes = LayerSizes(layers, 1024, batch, heads, heads * dim, 4)
                    chunk = chunk_steps(1024, batch)
                    for found in wavefronts(plan, sizes, chip, chunk)[1]:
                        yield plan, blocks, chip, found


def check(cells, limits, shapes, batches):
    """Check the room and the order of each; return how many there were."""
    count = 0
    for plan, blocks, chip, found in schedules(cells, limits, shapes, batches):
        cluster, free = plan.launch_shape.cluster, chip.multiprocessors - found.partition
        room = clusters_in(found.partition, cluster, chip.per_multiprocessor) * cluster
        assert max(found.groups) * blocks <= room
        assert free >= least_free(chip.multiprocessors)
        for place, size in enumerate(found.groups, 1):
            if size > 1:
                check_order(items_of(size, range(8), place < len(found.groups)))
        count += 1
    return count


@pytest.mark.parametrize("limits", GPUS, ids=lambda limits: limits.name)
def test_every_wavefront_of_an_lstm_and_a_gru_has_room_and_an_order(limits):
    cells = [rnnc.cells.lstm, rnnc.cells.gru]
    assert check(cells, limits, SHAPES[:1] + SHAPES[3:5], BATCHES[1:2]) > 20


@pytest.mark.slow
@pytest.mark.parametrize("limits", GPUS, ids=lambda limits: limits.name)
def test_every_wavefront_of_every_cell_has_room_and_an_order(limits):
    cells = [rnnc.cells.get(name) for name in ONE_STAGE]
    assert check(cells, limits, SHAPES, BATCHES) > 1000
