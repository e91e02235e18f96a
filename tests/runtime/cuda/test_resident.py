"""What a fused plan launches: grids, turns and buffers, with a kernel that only takes notes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.alternating.plan import AlternatingPlan
from rnnc.codegen.cuda.block.plan import BlockPlan
from rnnc.codegen.cuda.cluster.plan import ClusterPlan
from rnnc.codegen.cuda.grid.plan import GridPlan
from rnnc.errors import ResidencyError
from rnnc.runtime.cuda import launchers
from rnnc.runtime.cuda.arguments import arguments_of, struct_around
from rnnc.runtime.cuda.launch import CallSizes, Kernel
from rnnc.runtime.cuda.launchers import launcher_of, waves


def kernel(kind, direction="forward", **sizes):
    """The plan of a direction; sizes that are not given do not matter."""
    every = {field.name: 1 for field in fields(kind)}
    text = {"direction": direction, "arch": "sm_90", "dtype": "bfloat16", "binding": ""}
    flags = dict.fromkeys(("tf32", "reverse", "wavefront"), False)
    return kind(**every | text | {"save": "gates"} | flags | sizes)


BLOCK = kernel(BlockPlan, head_dim=64, rows=4, warps=4)
CLUSTER = kernel(ClusterPlan, head_dim=256, rows=8, cluster=8)
CLUSTER_BACKWARD = kernel(ClusterPlan, "backward", head_dim=256, rows=8, cluster=16)
GRID = kernel(
    *(GridPlan, "forward"),
    head_dim=768,
    rows=16,
    groups=2,
    blocks=48,
    exchange_k_tiles=24,
    streamed_k_tiles=0,
)
GRID_BACKWARD = replace(GRID, direction="backward", cluster=4, exchange_k_tiles=96)


class Notes:
    """A kernel that launches nothing."""

    def __init__(self, name):
        self.name, self.launches = name, []

    def __call__(self, grid, arguments):
        self.launches.append((grid, arguments))


@pytest.fixture
def filled():
    """The memory that launches fill."""
    return []


@pytest.fixture
def launches(filled, monkeypatch):
    """What a direction of a plan launches."""

    def run(plan, steps, batch, heads):
        notes = {name: Notes(name) for name in plan.kernel_names}
        monkeypatch.setattr(launchers, "load_kernel", lambda cell, plan, name, device: notes[name])
        monkeypatch.setattr(launchers, "fill_bytes", lambda t, byte: filled.append(t.fill_(byte)))
        arguments = arguments_of(rnnc.cells.lstm, "forward", False, False)(steps=steps)
        launcher_of(rnnc.cells.lstm, plan, CallSizes(batch, heads, 64), 0).run(
            arguments, None, torch.zeros(1), steps
        )
        (found,) = [n.launches for n in notes.values() if n.launches]
        return found

    return run


def test_a_block_has_heads_beside_each_other(launches):
    assert [grid for grid, _ in launches(BLOCK, 7, 9, 12)] == [(12, 3, 1)]


def test_a_cluster_lies_along_x(launches):
    assert [grid for grid, _ in launches(CLUSTER, 7, 17, 3)] == [(8, 3, 3)]
    assert [grid for grid, _ in launches(CLUSTER_BACKWARD, 7, 17, 3)] == [(16, 3, 3)]


def test_a_grid_takes_turns_over_one_buffer(launches, filled):
    found = launches(GRID, 7, 65, 3)  # five groups of 16 rows, two at once
    assert [grid for grid, _ in found] == [(48, 2, 3), (48, 2, 3), (48, 1, 3)]
    assert [given.first_group for _, given in found] == [0, 2, 4]
    assert [given.arguments.steps for _, given in found] == [7, 7, 7]
    assert len(filled) == 3  # anew for each turn
    exchange = filled[0]
    assert {given.exchange for _, given in found} == {exchange.data_ptr()}
    assert exchange.data_ptr() % 16 == 0
    # Slots, heads, tiles, chunks, bytes: counted from the meaning.
    assert exchange.nbytes == 7 * 3 * (2 * 16 // 8) * 24 * 512
    assert {given.streamed for _, given in found} == {None}
    assert bool((exchange == 0xFF).all())


def test_a_grid_s_backward_has_its_own_chunks(launches):
    ((grid, given),) = launches(GRID_BACKWARD, 0, 1, 1)
    assert grid == (48, 1, 1)
    assert isinstance(
        given,
        struct_around("GridArguments", arguments_of(rnnc.cells.lstm, "forward", False, False)),
    )
    assert GRID_BACKWARD.buffer_bytes(1, 1) == (2 * 96 * 512, 0)


def test_what_a_grid_streams_lies_in_a_buffer_of_its_own(launches, monkeypatch):
    made = []
    new = torch.Tensor.new_empty
    monkeypatch.setattr(
        torch.Tensor, "new_empty", lambda *a, **options: made.append(new(*a, **options)) or made[-1]
    )
    streams = replace(GRID, warps=8, k_tiles=10, tiles=6, streamed_k_tiles=5)
    found = launches(streams, 7, 65, 3)
    (streamed,) = {given.streamed for _, given in found}
    buffer = next(t for t in made if t.data_ptr() == streamed)
    # Heads, groups, blocks, warps, chunks, halves of a chunk, tiles, bytes: from the meaning.
    assert buffer.nbytes == 3 * 2 * 48 * 8 * 5 * 2 * 6 * 512
    assert streamed % 16 == 0
    assert GRID_BACKWARD.buffer_bytes(65, 3).fixed == 0


def test_the_batch_is_cut_by_rows():
    assert AlternatingPlan(direction="forward", arch="sm_90", dtype="float32").batch_tiles(100) == 1
    assert [plan.batch_tiles(33) for plan in (BLOCK, CLUSTER, GRID)] == [9, 5, 3]
    assert GRID.batch_tiles(0) == 0
    assert list(waves(GRID, 0)) == []
    assert list(waves(replace(GRID, groups=9), 33)) == [(0, 3)]


def test_only_a_grid_s_backward_reads_the_transpose():
    R = torch.randn(4, 2, 3, 3)

    def matrix(plan, R):
        return launcher_of(rnnc.cells.lstm, plan, CallSizes(9, 2, 64), 0).matrix(R)

    for plan in (BLOCK, CLUSTER, CLUSTER_BACKWARD, GRID):
        assert matrix(plan, R) is R
    turned = matrix(GRID_BACKWARD, R)
    assert turned.is_contiguous()
    assert torch.equal(turned[1, 0], R[1, 0].T)
    assert matrix(GRID_BACKWARD, None) is None


def test_blocks_that_wait_for_each_other_must_fit():
    pytest.importorskip("cupy_backends.cuda.api.driver")
    kernel = Kernel("rnnc_forward", 0, 256, 4096, None, 1, resident=120)
    with pytest.raises(ResidencyError) as refused:
        kernel((48, 3, 1), arguments_of(rnnc.cells.lstm, "forward", False, False)())
    assert str(refused.value) == (
        "launch of rnnc_forward on cuda:1\n"
        "  found:  144 blocks that wait for each other, each with 256 threads and 4096 bytes"
        " of shared memory\n"
        "  wanted: at most 120 blocks, which the device holds at once\n"
        '  write:  variant="alternating", fewer heads, or a smaller head_dim'
    )
