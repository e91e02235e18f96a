"""Drawn inputs with what torch adds: autocast, compilers, and the gradient of a probability."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State, bernoulli, heaviside, sigmoid, tanh, uniform, with_gradient

T, B, INPUT, HIDDEN = 7, 3, 4, 6


@rnnc.cell
def computed(p: Gate, g: Gate, h: State, *, u: Input = uniform()):
    """A unit keeps its value with a probability that the cell computes."""
    chance = sigmoid(p)
    keep = with_gradient(heaviside(chance - u), of=chance)
    return keep * h + (1 - keep) * tanh(g)


@rnnc.cell
def kept(g: Gate, h: State, *, keep: Input = bernoulli(0.4)):
    """A unit keeps its value with a given probability."""
    return keep * h + (1 - keep) * tanh(g)


def loop(wx, R, u):
    """`computed` by operations of torch, (B, T, N, D, 2) by (2, N, D, D)."""
    h, found = wx.new_zeros(B, 1, HIDDEN), []
    for t in range(wx.shape[1]):
        p, g = wx[:, t].movedim(-1, 0) + torch.einsum("gnij,bnj->gbni", R, h)
        chance = p.sigmoid()
        keep = (chance > u[:, t]).to(wx.dtype) + chance - chance.detach()
        h = keep * h + (1 - keep) * g.tanh()
        found.append(h)
    return torch.stack(found, 1)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_gradient_of_a_computed_probability(backend):
    wx = torch.randn(B, T, 1, HIDDEN, 2, dtype=torch.float64, requires_grad=True)
    R = torch.randn(2, 1, HIDDEN, HIDDEN, dtype=torch.float64, requires_grad=True)
    u = torch.rand(B, T, 1, HIDDEN, dtype=torch.float64)
    (h,), _ = rnnc.scan(computed, wx, R, inputs={"u": u}, backend=backend)
    wanted = loop(wx, R, u)
    torch.testing.assert_close(h, wanted)
    seed = torch.randn_like(h)
    for name, got, true in zip(
        ("wx", "R"),
        torch.autograd.grad(h, (wx, R), seed),
        torch.autograd.grad(wanted, (wx, R), seed),
        strict=True,
    ):
        torch.testing.assert_close(got, true, msg=lambda m, n=name: f"{n} {m}")


def test_a_computed_probability_is_met():
    wx = torch.tensor([-1.0, 0.5]).expand(4000, 1, 1, 1, 2).contiguous()
    torch.manual_seed(1)
    (h,), _ = rnnc.scan(computed, wx, torch.zeros(2, 1, 1, 1), states=[torch.ones(4000, 1, 1)])
    chance = torch.tensor(-1.0).sigmoid()
    far = 5 * (chance * (1 - chance) / 4000).sqrt()
    assert ((h == 1).float().mean() - chance).abs() < far


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_draws_in_its_dtype(dtype):
    torch.manual_seed(0)
    rnn = rnnc.RNN(kept, INPUT, HIDDEN, num_layers=2, bidirectional=True)
    reference = rnnc.RNN(kept, INPUT, HIDDEN, num_layers=2, bidirectional=True, backend="reference")
    reference.load_state_dict(rnn.state_dict())
    x, found = torch.randn(T, B, INPUT), []
    for module in (rnn, reference):
        torch.manual_seed(2)
        with torch.autocast("cpu", dtype):
            y = module(x)[0]
        assert y.dtype == dtype
        found.append([y.float(), *torch.autograd.grad(y.float().sum(), module.parameters())])
    torch.testing.assert_close(*found, rtol=0.05, atol=0.05)
    with torch.autocast("cpu", dtype):
        assert not torch.allclose(rnn(x)[0].float(), found[0][0], atol=0.05)


def test_a_compiled_call_says_how_to_do_without_a_generator():
    rnn = torch.compile(rnnc.RNN(kept, INPUT, HIDDEN), backend="eager", fullgraph=True)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"holds no generator.*inputs={…}"):
        rnn(torch.randn(T, B, INPUT), generator=torch.Generator())


def test_a_compiled_call_says_that_a_tensor_is_no_bool():
    rnn, x = rnnc.RNN(kept, INPUT, HIDDEN), torch.randn(T, B, INPUT)
    torch._dynamo.reset()
    compiled = torch.compile(rnn, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"'sample', 'a Tensor'"):
        compiled(x, sample=torch.tensor(True))
    with pytest.raises(rnnc.TensorError, match="a Tensor\n  wanted: True or False"):
        rnn(x, sample=torch.tensor(True))


def test_a_program_of_any_sizes_draws():
    """Also of as many steps as there are layers and directions together, here 4."""
    rnn = rnnc.RNN(kept, INPUT, HIDDEN, num_layers=2, bidirectional=True)
    sizes = {0: torch.export.Dim("T"), 1: torch.export.Dim("B")}
    program = torch.export.export(rnn, (torch.randn(T, B, INPUT),), dynamic_shapes=(sizes,))
    run = program.module()
    for steps, batch in ((4, 4), (3, 5)):
        x, found = torch.randn(steps, batch, INPUT), []
        for call in (rnn, run):
            torch.manual_seed(3)
            found.append(call(x)[0])
        torch.testing.assert_close(*found)


@rnnc.cell
def twice(h: State, k: State, g: Gate, a: Input = uniform(), b: Input = uniform()):
    """Its states are what was drawn, whatever its gate."""
    return a + 0 * g, b + 0 * g


def test_two_draws_of_one_distribution_stay_two_in_a_compiled_call():
    """Also those of two modules; compilers make one value of equal operations."""
    torch._dynamo.reset()
    first, second = (rnnc.RNN(twice, INPUT, HIDDEN) for _ in range(2))
    both = torch.compile(
        lambda x: (first(x, all_states=True)[2], second(x, all_states=True)[2]),
        backend="aot_eager",
        fullgraph=True,
    )
    found = [state for every in both(torch.zeros(T, B, INPUT)) for state in every.values()]
    assert len({state.sum().item() for state in found}) == 4
