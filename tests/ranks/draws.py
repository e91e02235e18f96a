"""Checks of inputs that ranks draw for their heads."""

from __future__ import annotations

import math

import rnnc
import torch
from compared import assert_alike, drawn, joined, made, spread
from rnnc.distributed import HeadwiseParallel, SequenceParallel
from steps import own_steps

T, B, HIDDEN, HEADS = 8, 3, 64, 4


@rnnc.cell
def shown(
    h: rnnc.State,
    m: rnnc.State,
    *,
    g: rnnc.Gate = rnnc.gate(recurrent=False, bias=False),
    xi: rnnc.Input = rnnc.normal(),
    mask: rnnc.Input = rnnc.bernoulli(0.5, per="sequence"),
):
    """Its states are what was drawn."""
    return xi + 0 * g, mask + 0 * g


@rnnc.cell
def noisy(n: rnnc.Gate, h: rnnc.State, *, keep: rnnc.Input = rnnc.bernoulli(0.3)):
    """A cell whose state is kept at random."""
    return keep * h + (1 - keep) * rnnc.tanh(n)


def states_of(module, x, mesh, style, **more):
    """What a call drew, of all heads and steps: xi and mask, each (T, B, directions, hidden)."""
    _, _, every = module(x, all_states=True, **more)
    found = []
    for state in every.values():
        if style is SequenceParallel:
            state = joined(state, mesh, 0)
        found.append(state.unflatten(-1, (2, HIDDEN)).double())
    return found


def check_ranks_draw_apart(mesh):
    """Also from the same seed; each draws one mask for all steps between resets."""
    for style in (HeadwiseParallel, SequenceParallel):
        options = {"hidden_size": HIDDEN, "heads": HEADS, "num_layers": 2, "bidirectional": True}
        rnn = made(mesh, shown, dtype=torch.float32, **options)
        own = spread(rnn, mesh, style())
        x = drawn(mesh, T, B, 5, dtype=torch.float32)
        reset = torch.zeros(T, B, dtype=torch.bool, device=x.device)
        reset[5, 1] = True
        if style is SequenceParallel:
            x, reset = own_steps(x, mesh), own_steps(reset, mesh)
        torch.manual_seed(5)
        xi, mask = states_of(own, x, mesh, style)
        torch.manual_seed(5)
        again, _ = states_of(own, x, mesh, style)
        assert torch.equal(again, xi)
        assert not torch.equal(states_of(own, x, mesh, style)[0], xi)
        own(x)[0].sum().backward()
        assert all(weight.grad is not None for weight in own.parameters())
        assert torch.equal(mask, mask[:1].expand_as(mask))
        _, masked = states_of(own, x, mesh, style, reset=reset)
        assert torch.equal(masked[:5], masked[:1].expand_as(masked[:5]))
        assert torch.equal(masked[5:, 0], masked[:3, 0])
        assert not torch.equal(masked[5, 1], masked[4, 1])
        assert abs(xi.mean()) < 5 / math.sqrt(xi.numel())
        for pair in (xi.chunk(mesh.size(), -1), xi.unbind(2), xi.chunk(2, 0)):
            products = pair[0] * pair[1]
            assert abs(products.mean()) < 5 / math.sqrt(products.numel())


def check_ranks_run_means_and_what_is_passed(mesh):
    for style in (HeadwiseParallel, SequenceParallel):
        options = {"num_layers": 2, "bidirectional": True}
        rnn = made(mesh, noisy, **options)
        own, x = spread(rnn, mesh, style()), drawn(mesh, T, B, 5)
        inputs = {"keep": torch.sigmoid(drawn(mesh, 4, T, B, 4, 6, seed=7))}
        mine = x if style is HeadwiseParallel else own_steps(x, mesh)
        given = inputs
        if style is SequenceParallel:
            given = {"keep": own_steps(inputs["keep"], mesh, 1)}
        means = {"sample": False}
        for more, whole in ((means, means), ({"inputs": given}, {"inputs": inputs})):
            mine, x = (t.detach().requires_grad_() for t in (mine, x))
            y, wanted = own(mine, **more)[0], rnn(x, **whole)[0]
            y.square().sum().backward()
            wanted.square().sum().backward()
            d_x = x.grad if style is HeadwiseParallel else own_steps(x.grad, mesh)
            assert_alike({"d x": mine.grad}, {"d x": d_x})
            y = y if style is HeadwiseParallel else joined(y, mesh, 0)
            assert_alike({"y": y.detach()}, {"y": wanted.detach()})
