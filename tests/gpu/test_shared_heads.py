"""Heads that several blocks share: the waits end, whatever the data and the other work."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Shape
from rnnc.errors import ResidencyError
from rnnc.runtime.cuda import ready
from rnnc.runtime.cuda.arguments import arguments_of, struct_around
from rnnc.runtime.cuda.driver.device import device_limits
from rnnc.runtime.cuda.load import load_kernel

SHARED = ["cluster", "grid"]


def all_ones(dtype):
    """The NaN that an exchange buffer is filled with."""
    width = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    return torch.full((), -1, dtype=width, device="cuda").view(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("variant", SHARED)
@pytest.mark.parametrize("name", ["elman", "lstm"])
def test_any_nan_counts_as_data(name, variant, dtype, draw, seeds_for, results):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, (11, 9, 2, 250), dtype, variant)
    seeds = seeds_for(cell, inputs)
    nan = all_ones(dtype)
    with torch.no_grad():
        inputs.states[0][1] = nan
        inputs.states[0][2, 0, 64:66] = nan  # a whole word of it
        inputs.wx[3, 4, 1, 7] = nan
        inputs.wx[4] = nan
        inputs.wx[5, 3, 0, 0] = torch.inf
        inputs.wx[6, 5, 1, 240:250] = -torch.inf
        for key in seeds:
            seeds[key][7] = nan
            seeds[key][8, ..., 10:12] = nan
    wanted = results(cell, inputs, seeds, "reference")
    got = results(cell, inputs, seeds, variant=variant)
    for key in wanted:
        assert torch.equal(got[key].isnan(), wanted[key].isnan()), key


def plan_of(cell, shape, dtype=torch.bfloat16, variant="grid"):
    batch, _, heads, dim = shape
    sizes = Shape(heads, dim, batch, dtype=str(dtype).removeprefix("torch."))
    return plan_for(cell, sizes, device_limits(torch.cuda.current_device()), variant)


def test_turns_give_the_bits_of_one_launch(draw, seeds_for, results, same_bits, monkeypatch):
    cell, shape = rnnc.cells.lstm, (37, 12, 1, 250)
    inputs = draw(cell, shape, torch.bfloat16, "grid")
    seeds = seeds_for(cell, inputs)
    plan = plan_of(cell, shape)
    found = []
    for groups in (1, 2, 3):
        grouped = Plan(replace(plan.forward, groups=groups), replace(plan.backward, groups=groups))
        monkeypatch.setattr(ready, "choose_plan", lambda *_, now=grouped: now)
        found.append(results(cell, inputs, seeds, variant="grid"))
    same_bits(found[1], found[0])
    same_bits(found[2], found[0])


def test_a_grid_that_does_not_fit_is_refused_before_it_hangs():
    cell, struct = rnnc.cells.lstm, arguments_of(rnnc.cells.lstm, "forward", False, False)
    plan = plan_of(cell, (8, 3, 1, 250))
    torch.zeros(1, device="cuda")  # this thread has a context
    for name, grid in plan.kernels.items():
        kernel = load_kernel(cell, grid, name, torch.cuda.current_device())
        blocks = grid.blocks
        assert kernel.resident >= blocks * grid.groups
        groups = kernel.resident // blocks + 1
        with pytest.raises(ResidencyError, match=f"found:  {blocks * groups} blocks that wait"):
            kernel((blocks, groups, 1), struct_around("GridArguments", struct)())
    torch.cuda.synchronize()


# Some fill most of a chip alone, so that two of them cannot run side by side.
MIX = [
    ("lstm", "grid", (16, 48, 1, 1024)),
    ("gru", "cluster", (16, 64, 3, 256)),
    ("elman", "grid", (8, 33, 1, 512)),
    ("slstm", "block", (16, 64, 12, 64)),
    ("gru", "grid", (33, 17, 1, 768)),
    ("lstm", "cluster", (64, 20, 2, 384)),
    ("lstm", "grid", (16, 25, 2, 328)),
]


@pytest.fixture
def mixture(draw, seeds_for, results):
    """Calls of many kinds, each with the results that it has alone."""
    limits = device_limits(torch.cuda.current_device())
    calls = []
    for name, variant, shape in MIX:
        cell = rnnc.cells.get(name)
        if variant == "cluster" and limits.cluster == 1:
            continue
        inputs = draw(cell, shape, torch.bfloat16, variant)
        seeds = seeds_for(cell, inputs)

        def call(cell=cell, inputs=inputs, seeds=seeds, variant=variant):
            return results(cell, inputs, seeds, variant=variant)

        calls.append((call, call()))
    torch.cuda.synchronize()
    return calls


def differences(got, wanted):
    """How many numbers differ in their bits, counted on the device."""
    bits = ((got[key].view(torch.int16), wanted[key].view(torch.int16)) for key in wanted)
    return sum((ours != theirs).sum() for ours, theirs in bits)


def test_a_thousand_calls_on_two_streams(mixture):
    """Each launches twice; nothing waits for the host, so that kernels of both streams meet."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in streams]
    torch.cuda.synchronize()
    for number in range(500):
        for side, stream in enumerate(streams):
            # Different neighbours every time.
            call, wanted = mixture[(number * (1 + 2 * side) + number // 7) % len(mixture)]
            with torch.cuda.stream(stream):
                wrong[side] += differences(call(), wanted)
    torch.cuda.synchronize()
    assert [int(count) for count in wrong] == [0, 0]


def captured(call, stream):
    """A graph of a call, and the tensors that it fills."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        static = call()
    return graph, static


def test_graphs_replayed_on_two_streams(mixture):
    streams = [torch.cuda.Stream() for _ in range(2)]
    graphs = [
        (*captured(call, streams[i % 2]), wanted, streams[i % 2])
        for i, (call, wanted) in enumerate(mixture)
    ]
    wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in graphs]
    torch.cuda.synchronize()
    for _ in range(30):
        for count, (graph, static, wanted, stream) in zip(wrong, graphs, strict=True):
            with torch.cuda.stream(stream):
                for value in static.values():
                    value.fill_(torch.nan)
                graph.replay()
                count += differences(static, wanted)
    torch.cuda.synchronize()
    assert [int(count) for count in wrong] == [0] * len(graphs)


def test_branches_of_one_graph(mixture):
    """Kernels that nothing orders, in one graph."""
    (first, wanted), (second, also_wanted) = mixture[0], mixture[-1]
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        static = first()
        with torch.cuda.stream(side):
            also_static = second()
        torch.cuda.current_stream().wait_stream(side)
    for _ in range(30):
        graph.replay()
        assert int(differences(static, wanted)) == 0
        assert int(differences(also_static, also_wanted)) == 0


OCCUPY = r"""
extern "C" __global__ void occupy(long long nanoseconds) {
  long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    __nanosleep(10000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}
"""


@pytest.mark.parametrize("share", [1, 2], ids=["whole", "half"])
@pytest.mark.parametrize("variant", SHARED)
def test_other_work_may_take_the_chip_for_long(variant, share, draw, seeds_for, results, same_bits):
    """No watchdog acts: blocks that have no multiprocessor yet are waited for with patience."""
    import cupy
    import numpy as np

    cell, shape = rnnc.cells.lstm, {"cluster": (64, 20, 3, 256), "grid": (16, 20, 1, 1024)}[variant]
    inputs = draw(cell, shape, torch.bfloat16, variant)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant=variant)
    limits = device_limits(torch.cuda.current_device())
    occupy = cupy.RawKernel(OCCUPY, "occupy")
    occupy.max_dynamic_shared_size_bytes = limits.shared_per_block
    busy, other = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with cupy.cuda.Stream.from_external(busy):
        grid, seconds = (limits.multiprocessors // share,), np.int64(4)
        occupy(grid, (32,), (seconds * 10**9,), shared_mem=limits.shared_per_block)
    with torch.cuda.stream(other):
        got = results(cell, inputs, seeds, variant=variant)
    torch.cuda.synchronize()
    same_bits(got, wanted)


def test_grids_of_two_priorities(draw, seeds_for, results, same_bits):
    """Each wants most of the chip, and the scheduler prefers one of them."""
    cell, shape = rnnc.cells.lstm, (16, 200, 1, 1024)
    inputs = draw(cell, shape, torch.bfloat16, "grid")
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant="grid")
    streams = [torch.cuda.Stream(priority=priority) for priority in (0, -1)]
    torch.cuda.synchronize()
    found = []
    for _ in range(10):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(results(cell, inputs, seeds, variant="grid"))
    torch.cuda.synchronize()
    for got in found:
        same_bits(got, wanted)


def late_block(variant, tmp_path, cell="lstm", direction="forward", **environment):
    """A process in which a block's data comes five seconds late."""
    return subprocess.run(
        [sys.executable, Path(__file__).with_name("hanging.py"), variant, cell, direction],
        # What it compiles is for nobody else.
        env={**os.environ, "RNNC_CACHE_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize(("environment", "seconds"), [("", "2.0"), ("0.5", "0.5"), ("3", "3.0")])
@pytest.mark.parametrize("variant", SHARED)
def test_a_wait_in_vain_ends_with_one_message(variant, environment, seconds, tmp_path, needs_plan):
    needs_plan(rnnc.cells.lstm, 1, 250, 4, torch.bfloat16, variant)
    given = {"RNNC_WATCHDOG_SECONDS": environment} if environment else {}
    done = late_block(variant, tmp_path, **given)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "done" not in done.stdout
    # The plan, and the step in the place of a line's number.
    assert f"lstm, {variant} plan of head dim 250:" in said
    message = f"`another block's data did not arrive within {seconds} seconds` failed"
    assert said.count(message) == 1, said
    assert said.count("Assertion") == 1, said


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("variant", SHARED)
@pytest.mark.parametrize("cell", ["gru_reset_first", "joint_norm_lstm"])
def test_a_wait_in_vain_within_a_step(cell, variant, direction, tmp_path, needs_plan):
    """A stage waits for what another one leaves: a product's factor, or parts of a norm."""
    known = rnnc.cells.get(cell)
    needs_plan(known, 1, 250, 4, torch.bfloat16, variant)
    done = late_block(variant, tmp_path, cell, direction, RNNC_WATCHDOG_SECONDS="0.5")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "done" not in done.stdout
    assert f"{cell}, {variant} plan of head dim 250:" in said
    message = "`another block's data did not arrive within 0.5 seconds` failed"
    assert said.count(message) == 1, said


@pytest.mark.parametrize("bound", ["0", "60"])
@pytest.mark.parametrize("variant", SHARED)
def test_the_watchdog_may_be_turned_off_or_more_patient(variant, bound, tmp_path, needs_plan):
    needs_plan(rnnc.cells.lstm, 1, 250, 4, torch.bfloat16, variant)
    done = late_block(variant, tmp_path, RNNC_WATCHDOG_SECONDS=bound)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "done\n"
