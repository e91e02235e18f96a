"""Streams and CUDA graphs: work runs on torch's current stream and can be replayed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import rnnc
import torch


def late_copy(inputs, stream):
    """The inputs, which only become numbers on the stream after a while."""
    copies = inputs.map(lambda t: torch.full_like(t, torch.nan).detach().requires_grad_())
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), torch.no_grad():
        torch.cuda._sleep(100_000_000)  # cycles: some 50 ms
        for copy, tensor in zip(copies.named().values(), inputs.named().values(), strict=True):
            copy.copy_(tensor)
    return copies


@pytest.mark.parametrize("name", ["lstm", "slstm"])
def test_a_side_stream(name, variant, shape, draw, seeds_for, results, same_bits):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, shape, torch.bfloat16, variant)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant=variant)
    stream = torch.cuda.Stream()
    late = late_copy(inputs, stream)
    with torch.cuda.stream(stream):
        got = results(cell, late, seeds, variant=variant)
    stream.synchronize()
    same_bits(got, wanted)


def test_two_streams_at_once_keep_apart(variant, shape, draw, seeds_for, results, same_bits):
    cell = rnnc.cells.gru
    calls = [draw(cell, shape, torch.float32, variant) for _ in range(2)]
    seeds = seeds_for(cell, calls[0])
    wanted = [results(cell, inputs, seeds, variant=variant) for inputs in calls]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    found = []
    for _ in range(5):
        for inputs, stream in zip(calls, streams, strict=True):
            with torch.cuda.stream(stream):
                found.append(results(cell, inputs, seeds, variant=variant))
    torch.cuda.synchronize()
    for turn, got in enumerate(found):
        same_bits(got, wanted[turn % 2])


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("name", ["lstm", "unicornn"])
def test_a_captured_graph_replays_on_new_data(
    name, variant, save, shape, draw, seeds_for, results, same_bits
):
    cell = rnnc.cells.get(name)
    inputs, others = (draw(cell, shape, torch.bfloat16, variant) for _ in range(2))
    seeds = seeds_for(cell, inputs)
    choice = {"variant": variant, "save": save}
    wanted = results(cell, others, seeds, **choice)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            results(cell, inputs, seeds, **choice)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static = results(cell, inputs, seeds, **choice)

    with torch.no_grad():
        for old, new in zip(inputs.named().values(), others.named().values(), strict=True):
            old.copy_(new)
    for _ in range(2):
        for value in static.values():
            value.fill_(torch.nan)
        graph.replay()
        same_bits({key: value.clone() for key, value in static.items()}, wanted)
    # What was captured does not disturb later calls.
    same_bits(results(cell, others, seeds, **choice), wanted)


def test_a_new_stream_s_first_call_may_be_captured(variant, shape, draw, results, same_bits):
    """Kernels and buffers are there, or are made, without a call that capture forbids."""
    cell = rnnc.cells.lstm
    inputs = draw(cell, shape, torch.bfloat16, variant)
    seeds = {"h last": torch.ones_like(inputs.states[0])}
    wanted = results(cell, inputs, seeds, variant=variant)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        static = results(cell, inputs, seeds, variant=variant)
    graph.replay()
    torch.cuda.synchronize()
    same_bits(static, wanted)


FIRST = """
import sys, rnnc, torch
variant, dim = sys.argv[1], int(sys.argv[2])
wx = torch.randn(5, 6, 1, dim, 4, device="cuda", dtype=torch.bfloat16)
R = torch.randn(4, 1, dim, dim, device="cuda", dtype=torch.bfloat16) / dim**0.5
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    (h, _), _ = rnnc.scan(rnnc.cells.lstm, wx, R, variant=variant)
graph.replay()
(wanted, _), _ = rnnc.scan(rnnc.cells.lstm, wx, R, variant=variant)
assert torch.equal(h, wanted)
print("equal")
"""


def test_a_process_s_first_call_may_be_captured(variant, dim, needs_plan):
    """Its kernels are loaded during the capture, which is in torch's strictest mode."""
    needs_plan(rnnc.cells.lstm, 1, dim, 5, torch.bfloat16, variant)
    done = subprocess.run(
        [sys.executable, "-c", FIRST, variant, str(dim)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "equal\n"
