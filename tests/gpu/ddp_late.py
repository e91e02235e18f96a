"""Two processes train on a GPU each, one of them late: a script. Prints `equal` if it is no matter.

The other's kernel of NCCL holds multiprocessors while it waits for the late one, beside a backward
whose blocks want the whole chip.
"""

from __future__ import annotations

import os
import sys
import time

import rnnc
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

COUNT = 2


def main(rank: int, port: str, variant: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=COUNT)
    torch.manual_seed(0)
    rnn: nn.Module = rnnc.RNN(rnnc.cells.lstm, 64, 1024, num_layers=2, variant=variant)
    rnn.to("cuda", torch.bfloat16)
    # Small buckets: the second layer's gradients are on their way while the first's are computed.
    parallel = DistributedDataParallel(rnn, device_ids=[rank], bucket_cap_mb=1)
    x = torch.randn(64, 16, 64, device="cuda", dtype=torch.bfloat16)
    found = []
    for step in range(4):
        parallel.zero_grad()
        y, _ = parallel(x)
        if step and rank == 1:
            time.sleep(5)
        y.float().square().mean().backward()
        torch.cuda.synchronize()
        found.append([p.grad.clone() for p in parallel.parameters()])
    for later in found[1:]:
        for mine, first in zip(later, found[0], strict=True):
            torch.testing.assert_close(mine, first, rtol=0, atol=0)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print("equal")


if __name__ == "__main__":
    mp.spawn(main, args=tuple(sys.argv[1:3]), nprocs=COUNT)
