"""Checks of `SequenceParallel`."""

from __future__ import annotations

import pytest
import rnnc
import torch
from compared import assert_alike, drawn, gradients, heads_of, joined, made, spread
from heads import inputs_of, leaky
from rnnc.distributed import SequenceParallel, reduce_gradients
from torch import nn
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import parallelize_module

T, B = 8, 3


def own_steps(tensor, mesh, dim=0):
    """This rank's steps; the first ranks have one more where they do not divide."""
    return tensor.tensor_split(mesh.size(), dim)[mesh.get_local_rank()]


def compare(mesh, cell, call=None, own_call=None, style=None, steps=T, **options):
    """Outputs, states and gradients are those of one process.

    `call` is the same on all ranks; `own_call` has steps, of which each rank takes its own.
    """
    rnn, call, own_call = made(mesh, cell, **options), call or {}, own_call or {}
    dim = 1 if options.get("batch_first") else 0
    x = drawn(mesh, *((B, steps, 5) if dim else (steps, B, 5))).requires_grad_()
    y, last, *every = rnn(x, **call, **own_call)
    factors = drawn(mesh, *y.shape, seed=3)
    of_last = [drawn(mesh, *state.shape, seed=4) for state in last]
    loss = (y * factors).sum() + sum((s * f).sum() for s, f in zip(last, of_last, strict=True))
    loss.backward()
    wanted = {"y": y} | {f"last {i}": state for i, state in enumerate(last)}
    wanted |= {f"all {name}": state for name, state in (every[0] if every else {}).items()}
    wanted |= gradients(rnn) | {"x": x.grad}
    rnn.zero_grad()

    own = spread(rnn, mesh, style or SequenceParallel())
    mine = own_steps(x.detach(), mesh, dim).clone().requires_grad_()
    parts = {name: own_steps(value, mesh, dim) for name, value in own_call.items()}
    for name in ("states", "reset_to"):
        if name in call:
            call = call | {name: [heads_of(state, mesh) for state in call[name]]}
    y, last, *every = own(mine, **call, **parts)
    loss = (y * own_steps(factors, mesh, dim)).sum()
    for state, factor in zip(last, of_last, strict=True):
        loss = loss + (state * heads_of(factor, mesh)).sum()
    loss.backward()
    found = {"y": joined(y, mesh, dim)}
    found |= {f"last {i}": joined(state, mesh, -1) for i, state in enumerate(last)}
    for name, state in (every[0] if every else {}).items():
        found[f"all {name}"] = joined(state, mesh, dim)
    assert_alike(found | gradients(own) | {"x": joined(mine.grad, mesh, dim)}, wanted)


def check_steps_several_layers_and_states(mesh):
    states = [drawn(mesh, 2, B, 24, seed=10 + i) for i in range(2)]
    compare(mesh, rnnc.cells.lstm, {"states": states}, num_layers=2)


def check_steps_both_directions_batch_first(mesh):
    compare(mesh, rnnc.cells.lstm, num_layers=2, bidirectional=True, batch_first=True)


def check_steps_lengths_and_resets(mesh):
    reset = {"reset": drawn(mesh, T, B, seed=5) > 1}
    lengths = torch.tensor([T, 3, 0], device=mesh.device_type)
    states = [drawn(mesh, 4, B, 24, seed=10 + i) for i in range(2)]
    values = [drawn(mesh, 4, B, 24, seed=20 + i) for i in range(2)]
    call = {"lengths": lengths, "states": states, "reset_to": values}
    compare(mesh, rnnc.cells.lstm, call, reset, num_layers=2, bidirectional=True)


def check_steps_that_do_not_divide(mesh):
    compare(mesh, rnnc.cells.lstm, steps=7, style=SequenceParallel(uneven=True), num_layers=2)
    reset = {"reset": drawn(mesh, 7, B, seed=5) > 1}
    style = SequenceParallel(uneven=True)
    compare(mesh, rnnc.cells.lstm, None, reset, style=style, steps=7, batch_first=False)
    rnn, x = made(mesh, rnnc.cells.lstm, batch_first=True), drawn(mesh, B, 7, 5)
    own = spread(rnn, mesh, SequenceParallel(use_local_output=False))
    mine = x.chunk(mesh.size(), 1)[mesh.get_local_rank()]
    shape, stride = x.shape, x.stride()
    given = DTensor.from_local(mine, mesh, [Shard(1)], shape=shape, stride=stride, run_check=False)
    y, _ = own(given)
    assert y.shape == (B, 7, 24)
    assert_alike({"y": y.full_tensor()}, {"y": rnn(x)[0]})


def check_steps_all_states_and_inputs(mesh):
    compare(mesh, rnnc.cells.lstm, {"all_states": True}, bidirectional=True)
    for shape in ((T, B), (T, B, 24)):
        rnn, inputs = made(mesh, leaky, num_layers=2), inputs_of(mesh, *shape)
        x = drawn(mesh, T, B, 5)
        rates = inputs["rate"].requires_grad_()
        y, _ = rnn(x, inputs={"rate": rates})
        y.square().sum().backward()
        wanted = gradients(rnn) | {"y": y, "rate": own_steps(rates.grad, mesh)}
        own = spread(made(mesh, leaky, num_layers=2), mesh, SequenceParallel())
        mine = own_steps(rates.detach(), mesh).clone().requires_grad_()
        y, _ = own(own_steps(x, mesh), inputs={"rate": mine})
        y.square().sum().backward()
        assert_alike(gradients(own) | {"y": joined(y, mesh, 0), "rate": mine.grad}, wanted)


def check_steps_of_a_cell_without_input(mesh):
    @rnnc.cell
    def clock(h: rnnc.State, n: rnnc.Gate = rnnc.gate(input=False)):
        """A cell that no input reaches."""
        return rnnc.tanh(n + 0.3)

    rnn, x = made(mesh, clock, backend="reference"), drawn(mesh, T, B, 5)
    y, _ = spread(rnn, mesh, SequenceParallel())(own_steps(x, mesh))
    assert_alike({"y": joined(y, mesh, 0)}, {"y": rnn(x)[0]})


def check_steps_have_no_second_derivatives(mesh):
    """A first one with `create_graph=True` is as any other; both exchanges refuse another one."""
    rnn = spread(made(mesh, rnnc.cells.lstm, backend="reference"), mesh, SequenceParallel())
    x = own_steps(drawn(mesh, T, B, 5), mesh).requires_grad_()
    y, _ = rnn(x)
    (wanted,) = torch.autograd.grad(y.square().sum(), x, retain_graph=True)
    (d_x,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    assert type(y) is type(d_x) is torch.Tensor
    assert_alike({"x": d_x}, {"x": wanted})
    with pytest.raises(RuntimeError, match="no second derivative"):
        d_x.sum().backward()


def check_steps_have_the_same_bits(mesh):
    """The same product of the input: the identity."""
    rnn = made(mesh, rnnc.cells.lstm, input_size=96)
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(torch.eye(96))
    x = drawn(mesh, T, B, 96)
    wanted, last = rnn(x)
    found, own = spread(rnn, mesh, SequenceParallel())(own_steps(x, mesh))
    assert torch.equal(found, own_steps(wanted, mesh))
    for state, whole in zip(own, last, strict=True):
        assert torch.equal(state, heads_of(whole, mesh))


class Tagger(nn.Module):
    """Recurrent layers between others, of which each step is treated alike."""

    def __init__(self, rnn):
        super().__init__()
        torch.manual_seed(4)
        self.embedding = nn.Embedding(11, 5)
        self.rnn, self.head = rnn, nn.Linear(24, 11)
        self.double().to(rnn.weight_hh_l0.device)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


def check_steps_of_a_whole_model(mesh):
    """`reduce_gradients` sums what other layers have, and the loss is over all tokens."""
    model = Tagger(made(mesh, rnnc.cells.lstm, num_layers=2))
    tokens = (drawn(mesh, T, B, seed=7).abs() * 5).long().clamp(max=10)
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    wanted = gradients(model)
    model.zero_grad()
    parallelize_module(model, mesh, {"rnn": SequenceParallel()})
    own = own_steps(tokens, mesh)
    part = nn.functional.cross_entropy(model(own).flatten(0, 1), own.flatten(), reduction="sum")
    (part / tokens.numel()).backward()
    reduce_gradients(model, mesh)
    assert_alike(gradients(model), wanted)
