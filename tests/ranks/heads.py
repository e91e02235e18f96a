"""Checks of `HeadwiseParallel`."""

from __future__ import annotations

import rnnc
import torch
from compared import assert_alike, drawn, gradients, heads_of, joined, made, spread
from rnnc.distributed import HeadwiseParallel
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

T, B = 7, 3


def run(module, mesh, x, states=None, whole=True, **more):
    """Outputs, states and gradients by name; `whole`: in one process."""
    x = x.clone().requires_grad_()
    given = None if states is None else [s.clone().requires_grad_() for s in states]
    own = given if given is None or whole else [heads_of(s, mesh) for s in given]
    inputs = {name: each.clone().requires_grad_() for name, each in more.pop("inputs", {}).items()}
    y, last, *rest = module(x, own, inputs=inputs or None, **more)
    loss = (y * drawn(mesh, *y.shape, seed=3)).sum()
    for state in last:
        full = (*state.shape[:-1], state.shape[-1] * (1 if whole else mesh.size()))
        factor = drawn(mesh, *full, seed=4)
        loss = loss + (state * (factor if whole else heads_of(factor, mesh))).sum()
    loss.backward()
    last = last if whole else [joined(state, mesh, -1) for state in last]
    outputs = {"y": y.detach()} | {f"last {i}": state.detach() for i, state in enumerate(last)}
    for name, state in (rest[0] if rest else {}).items():
        outputs[f"all {name}"] = state.detach()
    found = gradients(module) | {"x": x.grad}
    found |= {f"input {name}": each.grad for name, each in inputs.items()}
    for i, state in enumerate(given or ()):
        gradient = state.grad if whole else heads_of(state.grad, mesh)
        found[f"state {i}"] = gradient if whole else joined(gradient, mesh, -1)
    module.zero_grad()
    return outputs, found


def compare(mesh, cell, call=None, style=None, **options):
    rnn = made(mesh, cell, **options)
    shape = (B, T, 5) if options.get("batch_first") else (T, B, 5)
    x, call = drawn(mesh, *shape), call or {}
    wanted, their = run(rnn, mesh, x, **call)
    if "reset_to" in call:
        call = call | {"reset_to": [heads_of(value, mesh) for value in call["reset_to"]]}
    found, own = run(spread(rnn, mesh, style or HeadwiseParallel()), mesh, x, whole=False, **call)
    # The recurrence has the same bits; products of inputs may sum in another order.
    assert_alike(found, wanted)
    assert_alike(own, their)


def check_heads_several_layers_and_states(mesh):
    states = [drawn(mesh, 2, B, 24, seed=10 + i) for i in range(2)]
    compare(mesh, rnnc.cells.lstm, {"states": states}, num_layers=2)


def check_heads_both_directions_batch_first(mesh):
    compare(mesh, rnnc.cells.lstm, num_layers=2, bidirectional=True, batch_first=True)


def check_heads_lengths_and_resets(mesh):
    reset = drawn(mesh, T, B, seed=5) > 1
    lengths = torch.tensor([T, 4, 0], device=mesh.device_type)
    states = [drawn(mesh, 4, B, 24, seed=10 + i) for i in range(2)]
    values = [drawn(mesh, 4, B, 24, seed=20 + i) for i in range(2)]
    call = {"reset": reset, "lengths": lengths, "states": states, "reset_to": values}
    compare(mesh, rnnc.cells.lstm, call, num_layers=2, bidirectional=True)


def check_heads_projection_and_all_states(mesh):
    compare(mesh, rnnc.cells.lstm, {"all_states": True}, num_layers=2, proj_size=2)
    compare(mesh, rnnc.cells.lstm, {"all_states": True}, bidirectional=True)


def check_heads_have_the_same_bits(mesh):
    """The same product of the input: the identity."""
    rnn = made(mesh, rnnc.cells.lstm, input_size=96)
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(torch.eye(96))
    x = drawn(mesh, T, B, 96)
    wanted, last = rnn(x)
    found, own = spread(rnn, mesh, HeadwiseParallel())(x)
    assert torch.equal(found, wanted)
    for state, whole in zip(own, last, strict=True):
        assert torch.equal(state, heads_of(whole, mesh))


def check_heads_one_step(mesh):
    rnn = made(mesh, rnnc.cells.lstm, num_layers=2)
    x = drawn(mesh, B, 5)
    own = spread(rnn, mesh, HeadwiseParallel())
    wanted, theirs = rnn.step(x)
    found, states = own.step(x)
    for _ in range(2):
        wanted, theirs = rnn.step(x, theirs)
        found, states = own.step(x, states)
    assert_alike({"y": found, "h": joined(states[0], mesh, -1)}, {"y": wanted, "h": theirs[0]})


def check_heads_rowwise_linear_behind(mesh):
    for bidirectional in (False, True):
        rnn = made(mesh, rnnc.cells.lstm, bidirectional=bidirectional)
        torch.manual_seed(3)
        linear = nn.Linear(48 if bidirectional else 24, 6).double().to(mesh.device_type)

        class Model(nn.Module):
            def __init__(self, rnn, linear):
                super().__init__()
                self.rnn, self.linear = rnn, linear

            def forward(self, x):
                return self.linear(self.rnn(x)[0])

        model, x = Model(rnn, linear), drawn(mesh, T, B, 5)
        wanted = model(x)
        wanted.square().sum().backward()
        theirs = gradients(model)
        model.zero_grad()
        style = HeadwiseParallel(output_layouts=Shard(-1))
        parallelize_module(model, mesh, {"rnn": style, "linear": RowwiseParallel()})
        found = model(x)
        found.square().sum().backward()
        assert_alike({"y": found} | gradients(model), {"y": wanted} | theirs)


def check_heads_dtensors_in_and_out(mesh):
    rnn = made(mesh, rnnc.cells.lstm)
    x = drawn(mesh, T, B, 5)
    first = [drawn(mesh, 1, B, 24, seed=i) for i in range(2)]
    wanted, _ = rnn(x, first)
    own = spread(rnn, mesh, HeadwiseParallel(use_local_output=False, input_layouts=Replicate()))
    given = [DTensor.from_local(heads_of(s, mesh), mesh, [Shard(-1)]) for s in first]
    y, last = own(DTensor.from_local(x, mesh, [Replicate()]), given)
    assert isinstance(y, DTensor)
    assert last[0].shape == (1, B, 24)
    assert_alike({"y": y.full_tensor()}, {"y": wanted})


def check_heads_dropout(mesh):
    """Each rank drops other features, also with the same seed."""
    rnn = made(mesh, rnnc.cells.elman, num_layers=2, dropout=0.5)
    own = spread(rnn, mesh, HeadwiseParallel()).train()
    x, masks = drawn(mesh, T, B, 5), []
    layer = own._dropped
    own._dropped = lambda y: (masks.append(layer(y)), masks[-1])[1]
    torch.manual_seed(5)
    y, _ = own(x)
    torch.manual_seed(5)
    assert torch.equal(own(x)[0], y)
    kept = joined((masks[0] != 0).double(), mesh, -1)
    first, second = kept.chunk(2, -1)
    assert not torch.equal(first, second)
    assert 0.2 < kept.mean() < 0.8
    own.eval()
    rnn.eval()
    assert_alike({"y": own(x)[0]}, {"y": rnn(x)[0]})


def check_heads_dropout_compiled(mesh):
    """A compiled module drops what it drops otherwise."""
    rnn = made(mesh, rnnc.cells.elman, num_layers=2, dropout=0.5)
    own = spread(rnn, mesh, HeadwiseParallel()).train()
    x, found = drawn(mesh, T, B, 5), []
    compiled = torch.compile(own, backend="aot_eager", fullgraph=True)
    for module in (own, compiled, compiled):
        torch.manual_seed(5)
        y, _ = module(x)
        y.square().sum().backward()
        found.append({"y": y.detach()} | gradients(own))
        own.zero_grad()
    for other in found[1:]:
        assert_alike(other, found[0])
    with torch.no_grad():
        assert not torch.equal(compiled(x)[0], y)


@rnnc.cell
def leaky(n: rnnc.Gate, h: rnnc.State, rate: rnnc.Input, w: rnnc.Param):
    """A cell with an input of its own."""
    return h + rate * (rnnc.tanh(n + w) - h)


def inputs_of(mesh, *shape):
    return {"rate": torch.sigmoid(drawn(mesh, *shape, seed=9))}


def check_heads_inputs_of_the_cell(mesh):
    for shape in ((T, B), (1, B), (T, B, 24)):
        compare(mesh, leaky, {"inputs": inputs_of(mesh, *shape)}, num_layers=2)
