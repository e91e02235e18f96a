"""Two processes train on a GPU each: a script. Prints `equal` if the gradients are as of one."""

from __future__ import annotations

import os
import sys

import rnnc
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

COUNT = 2


def gradients(module, x):
    module.zero_grad()
    y, last = module(x)
    (y.square().mean() + sum(s.square().mean() for s in last)).backward()
    return [p.grad.clone() for p in module.parameters()]


def main(rank: int, port: str, variant: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=COUNT)
    torch.manual_seed(0)
    rnn: nn.Module = rnnc.RNN(rnnc.cells.slstm, 5, 120, heads=3, num_layers=2, variant=variant)
    rnn.cuda()
    x = torch.randn(37, 4 * COUNT, 5, device="cuda")
    wanted = gradients(rnn, x)
    parallel = DistributedDataParallel(rnn, device_ids=[rank])
    got = gradients(parallel, x[:, 4 * rank : 4 * (rank + 1)])
    for mine, whole in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, whole, rtol=1e-4, atol=1e-6)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print("equal")


if __name__ == "__main__":
    mp.spawn(main, args=tuple(sys.argv[1:3]), nprocs=COUNT)
