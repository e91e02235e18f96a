"""Wavefronts: their chunks and groups, and the source of their kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.cuda.wavefront.groups import (
    Chip,
    LayerSizes,
    chunk_steps,
    layer_blocks,
    wavefronts,
)
from rnnc.codegen.cuda.wavefront.partition import least_free
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.cuda.nvrtc import compile_cuda

LSTM = rnnc.cells.lstm
KINDS = ("block", "cluster")


def plan(kind, direction="forward", heads=12, dim=64, batch=16, dtype="bfloat16"):
    found = plan_for(LSTM, Shape(heads, dim, batch, dtype=dtype), limits_of("H200"), kind)
    return getattr(found, direction)


def sizes(layers=4, steps=1024, batch=16, heads=12, inputs=768):
    return LayerSizes(layers, steps, batch, heads, inputs, 4)


@pytest.mark.parametrize("batch", [1, 16, 63, 64, 500])
def test_chunks_are_whole_multiples_of_16_steps_and_at_least_four(batch):
    lengths = [chunk_steps(steps, batch) for steps in range(1, 9000, 7)]
    short, long = lengths[:10], lengths[-1]
    assert short == [None] * 10
    assert long == 256
    for steps, chunk in zip(range(1, 9000, 7), lengths, strict=True):
        assert chunk is None or (chunk % 16 == 0 and steps >= 4 * chunk)


def test_groups_have_all_layers_and_leave_room_for_what_they_wait_for():
    forward = plan("block")
    blocks = layer_blocks(forward, 16, 12)
    assert blocks == 12 * forward.batch_tiles(16)
    for layers in range(2, 9):
        alone, found = wavefronts(forward, sizes(layers), Chip(132, 3), 64)
        assert alone.groups == (1,) * layers
        assert found
        for each in found:
            assert sum(each.groups) == layers
            assert max(each.groups) > 1
            assert max(each.groups) - min(each.groups) <= 1
            assert 3 * each.partition >= max(each.groups) * blocks
            assert 132 - each.partition >= least_free(132)


def test_layers_that_do_not_fit_together_have_no_wavefront():
    forward = plan("block")
    assert 2 * layer_blocks(forward, 8, 12) < 88 < 2 * layer_blocks(forward, 16, 12)
    assert wavefronts(forward, sizes(batch=8), Chip(132, 1), 64)[1]
    assert not wavefronts(forward, sizes(), Chip(132, 1), 64)[1]
    assert not wavefronts(forward, sizes(batch=256), Chip(132, 1), 64)[1]
    assert not wavefronts(forward, sizes(), Chip(40, 3), 64)[1]  # no partition at all


def test_large_clusters_need_whole_groups_of_multiprocessors():
    forward = plan("cluster", heads=1, dim=512)
    assert forward.launch_shape.cluster == 16
    found = wavefronts(forward, sizes(heads=1, inputs=512), Chip(132, 1), 64)[1]
    # Two clusters per layer, of which a partition of 72 multiprocessors has room for four.
    assert {(max(each.groups), each.partition) for each in found} == {(2, 72), (2, 80), (2, 88)}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_only_a_layer_of_a_wavefront_has_another_source(kind, direction):
    alone = plan(kind, direction)
    layer = replace(alone, wavefront=True)
    ours, theirs = (kernel_source(LSTM, each) for each in (layer, alone))
    assert ours.headers == theirs.headers
    assert "WAVEFRONT" not in theirs.code
    added = [line for line in ours.code.splitlines() if line not in theirs.code.splitlines()]
    assert added[0].startswith("#define RNNC_WAVEFRONT")
    assert alone.as_compiled() != layer.as_compiled()


@pytest.mark.parametrize(
    ("kind", "direction", "heads", "dim", "dtype"),
    [
        ("block", "forward", 12, 64, "bfloat16"),
        pytest.param("block", "backward", 2, 32, "float32", marks=pytest.mark.slow),
        pytest.param("cluster", "forward", 1, 128, "float32", marks=pytest.mark.slow),
        ("cluster", "backward", 12, 64, "bfloat16"),
    ],
)
def test_layers_of_a_wavefront_compile_without_spills(kind, direction, heads, dim, dtype):
    layer = replace(plan(kind, direction, heads, dim, dtype=dtype), wavefront=True)
    reports = compile_cuda(kernel_source(LSTM, layer), "sm_90a").reports
    own = reports[f"rnnc_{direction}"]
    assert own.spills == 0
    assert own.registers <= layer.registers
