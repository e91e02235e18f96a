"""A rank that comes too late, on GPUs: the other one has to end with torch's error."""

from __future__ import annotations

import os
import time

import rnnc
import torch
import torch.distributed as dist


def wait_for_a_late_rank(mesh) -> None:
    """A kernel of NCCL waits, and holds multiprocessors beside blocks that want the whole chip."""
    rnn = rnnc.RNN(rnnc.cells.lstm, 64, 1024, variant="grid", device="cuda", dtype=torch.bfloat16)
    x = torch.randn(64, 16, 64, device="cuda", dtype=torch.bfloat16)
    total = torch.ones(2**20, device="cuda")
    for step in range(2):
        if step and dist.get_rank() == 1:
            time.sleep(25)
            os._exit(0)  # it never comes
        work = dist.all_reduce(total, async_op=True)
        rnn(x)[0].float().square().mean().backward()
        work.wait()
        torch.cuda.synchronize()
