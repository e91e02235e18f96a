"""Several GPUs: kernels run on the device of the tensors, whatever device is current."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import rnnc
import torch

two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@two
def test_the_tensors_device_counts_not_the_current_one(
    variant, shape, draw, seeds_for, results, same_bits
):
    cell = rnnc.cells.slstm
    inputs = draw(cell, shape, torch.bfloat16, variant, device="cuda:0")
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant=variant)
    others = inputs.map(lambda t: t.detach().to("cuda:1").requires_grad_())
    other_seeds = {key: seed.to("cuda:1") for key, seed in seeds.items()}
    with torch.cuda.device(0):
        got = results(cell, others, other_seeds, variant=variant)
        assert torch.cuda.current_device() == 0
    assert {value.device.index for value in got.values()} == {1}
    same_bits({key: value.to("cuda:0") for key, value in got.items()}, wanted)


@two
def test_a_module_on_each_gpu_in_turn(variant, dim, needs_plan):
    needs_plan(rnnc.cells.gru, 3, dim, 4, torch.float32, variant)
    x = torch.randn(37, 4, 5)
    rnn = rnnc.RNN(rnnc.cells.gru, 5, 3 * dim, heads=3, variant=variant)
    first, second, again = (
        rnn.to(device)(x.to(device))[0].cpu() for device in ("cuda:0", "cuda:1", "cuda:0")
    )
    assert torch.equal(first, second)
    assert torch.equal(first, again)


@two
def test_data_parallel_training(variant, needs_plan):
    needs_plan(rnnc.cells.slstm, 3, 40, 4, torch.float32, variant)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = Path(__file__).with_name("ddp_worker.py")
    done = subprocess.run(
        [sys.executable, script, port, variant],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal")


@two
def test_a_rank_that_is_late_by_seconds():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("ddp_late.py"), port, "grid"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal")


def test_another_thread_s_first_call(variant, shape, draw, seeds_for, results, same_bits):
    """A thread that has launched nothing yet has no context of its own."""
    cell = rnnc.cells.lstm
    inputs = draw(cell, shape, torch.bfloat16, variant)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant=variant)
    torch.cuda.synchronize()
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(results, cell, inputs, seeds, variant=variant) for _ in range(4)]
        for call in calls:
            same_bits(call.result(), wanted)
