"""Called gates and reductions mean what a loop in plain torch computes."""

from __future__ import annotations

import pytest
import rnnc
import torch
import torch.nn.functional as F  # noqa: N812
from rnnc import Gate, Param, State, gate, param, tanh

B, T, N, D = 3, 5, 2, 4


def gradients(results, given):
    """The gradient of every tensor of a call, by name."""
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(r.shape, generator=generator, dtype=r.dtype) for r in results.values()]
    leaves = given.named()
    found = torch.autograd.grad([*results.values()], [*leaves.values()], seeds)
    return dict(zip(leaves, found, strict=True))


def check_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-10, atol=1e-12, msg=lambda m, n=name: f"{n} {m}"
        )


@pytest.mark.parametrize("name", ["gru", "norm_lstm", "deep"])
def test_values_and_gradients_are_those_of_a_loop(name, staged_cells, inputs_for):
    cell, twin = staged_cells.TWINS[name]
    given = inputs_for(cell, B, T, N, D)
    found, wanted = given.scan(cell, "reference"), staged_cells.loop(cell, twin, given)
    check_same(found, wanted)
    check_same(gradients(found, given), gradients(wanted, given))


def test_a_cell_without_matrices_may_reduce(inputs_for):
    @rnnc.cell
    def weightless(g: Gate = gate(recurrent=False), h: State = rnnc.state()):
        return tanh(g - rnnc.mean(h)) * rnnc.largest(g)

    assert weightless.dense_pairs == ()
    given = inputs_for(weightless, B, 1, N, D)
    g, h = given.wx[:, 0, ..., 0] + given.b[0], given.states[0]
    expected = torch.tanh(g - h.mean(-1, True)) * g.amax(-1, True)
    torch.testing.assert_close(given.scan(weightless, "reference")["h last"], expected)


def reduced(function, values):
    """A reduction of a cell's state without a step's arithmetic, and the gradient of the state."""

    def cell(h: State, g: Gate = gate(recurrent=False, bias=False)):
        return function(h) + 0 * g

    x = torch.tensor(values, dtype=torch.float64)[None, None].requires_grad_()
    wx = torch.zeros(1, 1, *x.shape[1:], 1, dtype=torch.float64)
    _, (new,) = rnnc.scan(rnnc.cell(cell), wx, states=(x,), backend="reference")
    weights = torch.linspace(1, 2, new.numel(), dtype=torch.float64).reshape(new.shape)
    return new, torch.autograd.grad(new, x, weights)[0], x, weights


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (rnnc.mean, lambda x: x.mean(-1, True).expand_as(x)),
        (rnnc.total, lambda x: x.sum(-1, True).expand_as(x)),
        (rnnc.largest, lambda x: x.amax(-1, True).expand_as(x)),
        (rnnc.softmax, lambda x: torch.softmax(x, -1)),
        (rnnc.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:], eps=1e-5)),
        (rnnc.rms_norm, lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6)),
        (lambda x: rnnc.layer_norm(x, eps=2), lambda x: F.layer_norm(x, x.shape[-1:], eps=2)),
        (lambda x: rnnc.rms_norm(x, 3, 0), lambda x: 3 * F.rms_norm(x, x.shape[-1:], eps=0)),
    ],
)
@pytest.mark.parametrize("values", [[0.3, -1, 2, 2, 0.5], [7.0, 7, 7], [4.0]], ids=str)
def test_each_reduction_is_that_of_torch(function, expected, values):
    new, slope, x, weights = reduced(function, values)
    wanted = expected(x)
    torch.testing.assert_close(new, wanted)
    torch.testing.assert_close(slope, torch.autograd.grad(wanted, x, weights)[0])


def test_the_gradient_of_largest_is_shared_among_ties():
    _, slope, _, weights = reduced(rnnc.largest, [1.0, 3, 0, 3])
    half = weights.sum().item() / 2
    assert slope.flatten().tolist() == pytest.approx([0, half, 0, half])


def test_a_norm_of_one_unit_is_its_bias():
    new, slope, *_ = reduced(lambda x: rnnc.layer_norm(x, 5, 0.25), [3.0])
    assert new.item() == 0.25
    assert slope.item() == 0


@pytest.mark.parametrize("norm", [rnnc.layer_norm, rnnc.rms_norm])
def test_values_normed_together_share_their_mean(norm, inputs_for):
    @rnnc.cell
    def together(a: Gate, h: State, c: State, gain: Param = param(init=1.0)):
        first, second, third = norm((a, c, h * c), gain=(gain, 2, gain))
        return first + second, third

    given = inputs_for(together, B, 1, N, D)
    h, c = given.states
    a = given.wx[:, 0, ..., 0] + given.b[0] + torch.einsum("noi,bni->bno", given.R[0], h)
    own = {rnnc.layer_norm: F.layer_norm, rnnc.rms_norm: F.rms_norm}[norm]
    eps = {rnnc.layer_norm: 1e-5, rnnc.rms_norm: 1e-6}[norm]
    normed = own(torch.cat([a, c, h * c], -1), (3 * D,), eps=eps).chunk(3, -1)
    gain = given.params["gain"]
    found = given.scan(together, "reference")
    torch.testing.assert_close(found["h last"], normed[0] * gain + 2 * normed[1])
    torch.testing.assert_close(found["c last"], normed[2] * gain)


def test_a_gate_called_with_the_state_is_one_with_that_source():
    def called(g: Gate, h: State, c: State, n: Gate = gate(input=False)):
        return tanh(g + n(c)), h * c

    with_call = rnnc.cell(called)

    def called(g: Gate, h: State, c: State, n: Gate = gate(input=False, source="c")):
        return tanh(g + n), h * c

    assert rnnc.cell(called) == with_call
    assert rnnc.cell(called).fingerprint == with_call.fingerprint
    assert not with_call.has_stages
    assert with_call.called == ()


def test_both_sides_of_where_are_computed(inputs_for):
    @rnnc.cell
    def chosen(g: Gate, n: Gate, h: State):
        return rnnc.where(g > 0, n(g * h), h)

    given = inputs_for(chosen, B, 1, N, D)
    wx, (h,) = given.wx[:, 0], given.states
    g, n = (wx[..., i] + given.b[i] for i in range(2))
    g = g + torch.einsum("noi,bni->bno", given.R[0], h)
    n = n + torch.einsum("noi,bni->bno", given.R[1], g * h)
    found = given.scan(chosen, "reference")
    torch.testing.assert_close(found["h last"], torch.where(g > 0, n, h))
