"""Checks of DDP and FSDP2, of activations that are computed again, and of `torch.compile`."""

from __future__ import annotations

import copy
import os
from functools import partial

import pytest
import rnnc
import torch
from compared import assert_alike, drawn, gradients, heads_of, made, spread
from layouts import LAYOUTS
from rnnc.distributed import HeadwiseParallel, SequenceParallel, save_policy
from rnnc.runtime.program.seen import Replays
from steps import own_steps
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

T, B = 6, 4


class Tagger(nn.Module):
    """Torch's LSTM, or another one in its place, between other layers."""

    def __init__(self, rnn, features=24):
        super().__init__()
        self.first, self.rnn, self.head = nn.Linear(5, 5), rnn, nn.Linear(features, 3)

    def forward(self, x):
        return self.head(self.rnn(torch.tanh(self.first(x)))[0])


def models(mesh):
    """A model for each kind of module, with the same weights on all ranks."""
    torch.manual_seed(3)
    kinds = [
        made(mesh, rnnc.cells.lstm, torch.float32, num_layers=2),
        rnnc.nn.LSTM(5, 24, num_layers=2),
        nn.LSTM(5, 24),
    ]
    found = [Tagger(kind).to(mesh.device_type) for kind in kinds]
    rnnc.convert(found[2])
    return found


def rows_of(mesh, x):
    """This rank's rows of a batch (T, B, ...)."""
    return x.chunk(mesh.size(), 1)[mesh.get_local_rank()]


def trained(model, x):
    y = model(x)
    y.float().square().mean().backward()
    return y


def check_sharded_training(mesh):
    """DDP, and FSDP2 with each layer by itself, of each kind of module."""
    x = drawn(mesh, T, B, 5, dtype=torch.float32)
    for model in models(mesh):
        single = copy.deepcopy(model)
        trained(single, x)
        wanted = gradients(single)
        own = DistributedDataParallel(copy.deepcopy(model))
        trained(own, rows_of(mesh, x))
        assert_alike(gradients(own.module), wanted)
        own = copy.deepcopy(model)
        fully_shard(own.rnn, mesh=mesh)
        fully_shard(own, mesh=mesh)
        for _ in range(2):
            own.zero_grad()
            trained(own, rows_of(mesh, x))
        assert_alike(gradients(own), wanted)


def check_sharded_mixed_precision_and_offload(mesh):
    """Weights are gathered in bfloat16, and wait on the CPU where there is another device."""
    x = drawn(mesh, T, B, 5, dtype=torch.float32)
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policies = [{"mp_policy": mixed}]
    if mesh.device_type == "cuda":
        policies.append({"mp_policy": mixed, "offload_policy": CPUOffloadPolicy()})
    for model in models(mesh)[:2]:
        single = copy.deepcopy(model).bfloat16()
        wanted = trained(single, rows_of(mesh, x).bfloat16())
        for policy in policies:
            own = fully_shard(copy.deepcopy(model), mesh=mesh, **policy)
            y = trained(own, rows_of(mesh, x))
            assert y.dtype == torch.bfloat16
            torch.testing.assert_close(y, wanted, rtol=0.05, atol=0.02)
            optimizer = torch.optim.AdamW(own.parameters())
            optimizer.step()
            assert all(p.grad.dtype == torch.float32 for p in own.parameters())


def check_sharded_steps(mesh):
    """A step of a sharded module; a stepper refuses it."""
    rnn = made(mesh, rnnc.cells.lstm, num_layers=2)
    own, x = copy.deepcopy(rnn), drawn(mesh, B, 5)
    stepper = own.stepper(B)
    fully_shard(own, mesh=mesh)
    register_fsdp_forward_method(own, "step")
    for name, parameter in own.named_parameters():
        mine = rnn.get_parameter(name).chunk(mesh.size())[mesh.get_local_rank()]
        assert torch.equal(parameter.to_local(), mine)
    wanted, states = rnn.step(x)
    (wanted.sum() + states[1].sum()).backward()
    y, states = own.step(x)
    assert torch.equal(y, wanted)
    (y.sum() + states[1].sum()).backward()
    assert_alike(gradients(own), gradients(rnn))
    for stale in (lambda: stepper(x), lambda: own.stepper(B)):
        with pytest.raises(rnnc.TensorError, match="weight_ih_l0"):
            stale()


class Counted:
    """How often the kernels of all layers run forward."""

    def __enter__(self):
        self.runs, own = 0, Replays.run

        def run(replays, key, *others, **options):
            self.runs += key == "forward"
            return own(replays, key, *others, **options)

        self._own, Replays.run = own, run
        return self

    def __exit__(self, *_):
        Replays.run = self._own


def check_sharded_activation_checkpointing(mesh):
    """With `save_policy` no recurrence runs twice, alone and with each way to spread a module."""
    kept = partial(create_selective_checkpoint_contexts, save_policy)
    rnn, x = made(mesh, rnnc.cells.lstm, num_layers=2), drawn(mesh, T, B, 5)
    for wrap in (
        lambda module: module,
        lambda module: fully_shard(module, mesh=mesh),
        lambda module: spread(module, mesh, HeadwiseParallel()),
        lambda module: spread(module, mesh, SequenceParallel()),
    ):
        found = []
        for options in (None, {}, {"context_fn": kept}):
            own = wrap(copy.deepcopy(rnn))
            if options is None:
                y, _ = own(x)
            else:
                y, _ = checkpoint(own, x, use_reentrant=False, **options)
            y.square().sum().backward()
            found.append(gradients(own) | {"y": y})
        for other in found[1:]:
            assert_alike(other, found[0])
    with Counted() as counted:
        y, _ = checkpoint(rnn, x, use_reentrant=False, context_fn=kept)
        y.sum().backward()
    assert counted.runs == 1


def check_sharded_and_compiled(mesh):
    """Each of them under `torch.compile`, in one graph where torch can.

    In `make test` those of this package; those of torch alone, FSDP2 and DDP, take as long again.
    """
    all_of_them = mesh.device_type == "cuda" or "RNNC_SLOW" in os.environ
    rnn, x = made(mesh, rnnc.cells.lstm), drawn(mesh, T, B, 5)
    y, _ = rnn(x)
    y.square().sum().backward()
    wanted, theirs = y.detach(), gradients(rnn)
    for name, wrap in list(LAYOUTS.items())[1:]:
        if name not in ("heads", "steps") and not all_of_them:
            continue
        own = wrap(copy.deepcopy(rnn), mesh)
        torch._dynamo.reset()
        run = torch.compile(own, backend="aot_eager", fullgraph=name in ("heads", "steps"))
        given = own_steps(x, mesh) if name == "steps" else x
        y, _ = run(given)
        y.square().sum().backward()
        assert_alike(
            {"y": y} | gradients(own),
            {"y": own_steps(wanted, mesh) if name == "steps" else wanted} | theirs,
        )
    if all_of_them:
        rnn.zero_grad()
        run = torch.compile(DistributedDataParallel(rnn), backend="aot_eager")
        run(x)[0].square().sum().backward()
        assert_alike(gradients(rnn), theirs)


def check_sharded_weights_are_drawn_as_in_one_process(mesh):
    torch.manual_seed(7)
    rnn = rnnc.RNN(rnnc.cells.lstm, 5, 24, heads=4).to(mesh.device_type)
    torch.manual_seed(7)
    rnn.reset_parameters()
    for wrap in list(LAYOUTS.values())[1:]:
        own = wrap(copy.deepcopy(rnn), mesh)
        torch.manual_seed(7)
        own.reset_parameters()
        found = {name: p.full_tensor() for name, p in own.named_parameters()}
        assert_alike(found, dict(rnn.named_parameters()), exact=True)
        assert heads_of(rnn.weight_hh_l0.t(), mesh).shape == own.weight_hh_l0.to_local().t().shape


def check_sharded_copies_modes_and_dtypes(mesh):
    """Spread modules are copied, run without gradients, under autocast, and begin on `meta`."""
    rnn, x = made(mesh, rnnc.cells.lstm, num_layers=2), drawn(mesh, T, B, 5)
    for style in (HeadwiseParallel, SequenceParallel):
        own = spread(rnn, mesh, style())
        given = own_steps(x, mesh) if style is SequenceParallel else x
        wanted, _ = own(given)
        copied = copy.deepcopy(own)
        with torch.inference_mode():
            found = copied(given)[0]
            assert torch.equal(found, own(given)[0])
        # Without gradients a kernel of the CPU adds in another order.
        torch.testing.assert_close(found, wanted)
        single = spread(made(mesh, rnnc.cells.lstm, torch.float32), mesh, style())
        with torch.autocast(mesh.device_type, torch.bfloat16):
            y, _ = single(given.float())
        y.sum().backward()
        assert y.dtype == torch.bfloat16
        with torch.device("meta"):
            empty = rnnc.RNN(rnnc.cells.lstm, 5, 24, heads=4, num_layers=2, dtype=torch.float64)
        later = parallelize_module(empty, mesh, style()).to_empty(device=mesh.device_type)
        set_model_state_dict(later, get_model_state_dict(own))
        assert torch.equal(later(given)[0], wanted)
