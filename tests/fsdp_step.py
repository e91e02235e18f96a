"""One of two processes that share a module's parameters: a script. Prints `equal` if a step and its
gradients are as of one process, and if each process has the rows of a head."""

from __future__ import annotations

import sys

import pytest
import rnnc
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

COUNT = 2


def main(rank: int, port: str, device: str) -> None:
    backend = "nccl" if device == "cuda" else "gloo"
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group(backend, init_method=where, rank=rank, world_size=COUNT)
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.manual_seed(0)
    x = torch.randn(3, 4).to(device)
    whole = rnnc.RNN(rnnc.cells.lstm, 4, 6, heads=2, num_layers=2).to(device)
    wanted, states = whole.step(x)
    (wanted.sum() + states[1].sum()).backward()
    sharded = rnnc.RNN(rnnc.cells.lstm, 4, 6, heads=2, num_layers=2).to(device)
    sharded.load_state_dict(whole.state_dict())
    stepper = sharded.stepper(3)
    fully_shard(sharded, mesh=dist.init_device_mesh(device, (COUNT,)))
    register_fsdp_forward_method(sharded, "step")
    for name, parameter in sharded.named_parameters():
        assert torch.equal(parameter.to_local(), whole.get_parameter(name).chunk(COUNT)[rank])
    y, states = sharded.step(x)
    assert torch.equal(y, wanted)
    (y.sum() + states[1].sum()).backward()
    for name, parameter in sharded.named_parameters():
        found, other = parameter.grad.full_tensor(), whole.get_parameter(name).grad
        torch.testing.assert_close(found, other)
    for stale in (lambda: stepper(x), lambda: sharded.stepper(3)):
        with pytest.raises(rnnc.TensorError, match="weight_ih_l0"):
            stale()
    print("equal", flush=True)
    # A process that leaves while the other one still uses their connection may end both.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
