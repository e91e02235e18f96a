"""Checks of layouts of weights over ranks: alone, two together, and checkpoints between them."""

from __future__ import annotations

import copy
import tempfile
from functools import partial

import rnnc
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from compared import assert_alike, drawn, gradients, made, spread
from rnnc.distributed import HeadwiseParallel, SequenceParallel
from steps import own_steps
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.fsdp import (
    fully_shard,
)
from torch.distributed.tensor import DTensor, Shard

T, B = 6, 4


LAYOUTS = {
    "one": lambda module, mesh: module,
    "fsdp": lambda module, mesh: fully_shard(module, mesh=mesh),
    "heads": lambda module, mesh: spread(module, mesh, HeadwiseParallel()),
    "steps": lambda module, mesh: spread(module, mesh, SequenceParallel()),
}


def both_ways(module, mesh, sizes=(1, 2)):
    """Heads over one dimension of a mesh, and FSDP2 over the other."""
    names = "rows", "heads"
    both = dist.init_device_mesh(mesh.device_type, sizes, mesh_dim_names=names)
    own = spread(module, both["heads"], HeadwiseParallel())
    return fully_shard(own, mesh=both["rows"])


def whole(module):
    """All weights as they are in one process."""
    options = StateDictOptions(full_state_dict=True)
    return get_model_state_dict(module, options=options)


def check_layouts_and_checkpoints_between_them(mesh):
    """What one layout saves, sharded, every layout loads, and one process too."""
    layouts = LAYOUTS | {"heads x 1": both_ways, "1 x rows": partial(both_ways, sizes=(2, 1))}
    rnn = made(mesh, rnnc.cells.slstm, num_layers=2)
    folders: list[str | None] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folders)
    for saved, spread_out in layouts.items():
        folder = f"{folders[0]}/{saved.replace(' ', '')}"
        dcp.save(get_model_state_dict(spread_out(copy.deepcopy(rnn), mesh)), checkpoint_id=folder)
        for loaded, spread_in in layouts.items():
            other = copy.deepcopy(rnn)
            with torch.no_grad():
                for parameter in other.parameters():
                    parameter.zero_()
            own = spread_in(other, mesh)
            state = get_model_state_dict(own)
            dcp.load(state, checkpoint_id=folder)
            set_model_state_dict(own, state)
            found = whole(own)
            if dist.get_rank() == 0 or loaded == "one":
                wanted = dict(rnn.state_dict())
                assert_alike({k: found[k].to(v.device) for k, v in wanted.items()}, wanted, True)


def check_layouts_heads_and_rows(mesh):
    """Heads over one dimension, FSDP2 over the other: gradients are those of one process."""
    rnn, x = made(mesh, rnnc.cells.lstm, num_layers=2), drawn(mesh, T, B, 5)
    y, _ = rnn(x)
    y.square().mean().backward()
    for sizes in ((1, 2), (2, 1)):
        own = both_ways(copy.deepcopy(rnn), mesh, sizes)
        y, _ = own(x)
        y.square().mean().backward()
        assert_alike(gradients(own), gradients(rnn))
        torch.nn.utils.clip_grad_norm_(own.parameters(), 1.0)
        torch.optim.AdamW(own.parameters()).step()


def check_layouts_steps_and_rows(mesh):
    """Steps over one dimension of a mesh, FSDP2 over the other; and fewer steps than ranks."""
    rnn, x = made(mesh, rnnc.cells.lstm, num_layers=2), drawn(mesh, T, B, 5)
    y, _ = rnn(x)
    y.square().mean().backward()
    names = "rows", "steps"
    for sizes in ((1, 2), (2, 1)):
        both = dist.init_device_mesh(mesh.device_type, sizes, mesh_dim_names=names)
        own = fully_shard(spread(rnn, both["steps"], SequenceParallel()), mesh=both["rows"])
        found, _ = own(own_steps(x, both["steps"]))
        (found.square().sum() / y.numel()).backward()
        assert_alike(gradients(own), gradients(rnn))
    own = spread(made(mesh, rnnc.cells.lstm), mesh, SequenceParallel(use_local_output=False))
    one = drawn(mesh, 1, B, 5)
    mine = one if mesh.get_local_rank() == 0 else one[:0]
    shape, stride = one.shape, one.stride()
    given = DTensor.from_local(mine, mesh, [Shard(0)], shape=shape, stride=stride, run_check=False)
    wanted, _ = made(mesh, rnnc.cells.lstm)(one)
    assert_alike({"y": own(given)[0].full_tensor()}, {"y": wanted})
