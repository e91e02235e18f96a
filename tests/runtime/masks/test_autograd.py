"""Lengths and resets as torch sees them: operators, compilers, transforms, second derivatives."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.errors import SecondOrderError

CELL = rnnc.cells.elman
B, T, N, D = 3, 4, 2, 3
LENGTHS = torch.tensor([4, 0, 3])
RESET = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 1]]).bool()


def call(inputs, values, backend="auto"):
    """A function of tensors, and the tensors."""

    def run(wx, R, b, states, lengths, reset, *reset_to):
        over_time, last = rnnc.scan(
            CELL, wx, R, b, (states,), lengths=lengths, reset=reset, reset_to=reset_to,
            backend=backend,
        )  # fmt: skip
        return *over_time, *last

    return run, (inputs.wx, inputs.R, inputs.b, *inputs.states, LENGTHS, RESET, *values)


@pytest.fixture(params=[(N, D), (B, N, D)])
def values(request):
    return [torch.rand(request.param, dtype=torch.float64, requires_grad=True)]


# Seconds each: values of each row in make test, and values that all rows share in make test-slow.
some_values = pytest.mark.parametrize(
    "values",
    [
        pytest.param((N, D), marks=pytest.mark.slow, id="values0"),
        pytest.param((B, N, D), id="values1"),
    ],
    indirect=True,
)


def gradients(outputs, tensors):
    seeds = [torch.linspace(-1, 1, o.numel(), dtype=o.dtype).view(o.shape) for o in outputs]
    return torch.autograd.grad(outputs, [t for t in tensors if t.requires_grad], seeds)


def test_under_a_compiler(inputs_for, values):
    torch._dynamo.reset()
    run, tensors = call(inputs_for(CELL, B, T, N, D), values)
    got = torch.compile(run, fullgraph=True, backend="aot_eager")(*tensors)
    wanted = run(*tensors)
    for one, other in zip(
        (*got, *gradients(got, tensors)), (*wanted, *gradients(wanted, tensors)), strict=True
    ):
        assert torch.equal(one, other)


@some_values
def test_the_operators(inputs_for, values):
    inputs = inputs_for(CELL, B, T, N, D)
    steps = torch.tensor([[3, 0, 2], [2, 0, 1], [1, 0, 2], [1, 0, 0]], dtype=torch.uint8)
    longest = LENGTHS.to(torch.int32)
    arguments = (inputs.wx, inputs.R, None, inputs.b, [], list(inputs.states), CELL.text)
    options = (True, [True], "auto", "gates", None, False)
    for masks in ((steps, longest, values), (steps, longest, None), (steps, None, values)):
        torch.library.opcheck(torch.ops.rnnc.scan, (*arguments, *options, *masks))


@some_values
def test_gradcheck_and_second_derivatives(inputs_for, values):
    run, tensors = call(inputs_for(CELL, B, T, N, D), values, "reference")
    assert torch.autograd.gradgradcheck(run, tensors, gen_non_contig_grad_outputs=True)
    run, tensors = call(inputs_for(CELL, B, T, N, D), values, "cpu")
    assert torch.autograd.gradcheck(run, tensors)
    first = torch.autograd.grad(run(*tensors)[0].sum(), tensors[0], create_graph=True)[0]
    with pytest.raises(SecondOrderError):
        first.sum().backward()


@pytest.mark.filterwarnings("ignore:rnnc has no kernels")
def test_vmap_and_forward_mode(inputs_for, values):
    run, tensors = call(inputs_for(CELL, B, T, N, D), values)
    several = torch.stack([tensors[0], 2 * tensors[0]])
    lengths = torch.stack([LENGTHS, LENGTHS.flip(0)])
    mapped = torch.vmap(lambda wx, own: run(wx, *tensors[1:4], own, *tensors[5:]))
    for i, found in enumerate(zip(*mapped(several, lengths), strict=True)):
        wanted = run(several[i], *tensors[1:4], lengths[i], *tensors[5:])
        torch.testing.assert_close(found, wanted)
    tangent = torch.randn_like(values[0])
    _, got = torch.func.jvp(lambda value: run(*tensors[:6], value), (values[0],), (tangent,))
    (h, last) = run(*tensors)
    for output, found in ((h, got[0]), (last, got[1])):
        seed = torch.randn_like(output)
        (d_value,) = torch.autograd.grad(output, values[0], seed, retain_graph=True)
        torch.testing.assert_close((seed * found).sum(), (d_value * tangent).sum())


def test_saved_tensors_that_are_moved_away_and_back(inputs_for, values):
    run, tensors = call(inputs_for(CELL, B, T, N, D), values)
    wanted = gradients(run(*tensors), tensors)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), torch.from_numpy):
        outputs = run(*tensors)
    for one, other in zip(gradients(outputs, tensors), wanted, strict=True):
        assert torch.equal(one, other)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t[..., :1]):
        outputs = run(*tensors)
    with pytest.raises(rnnc.TensorError, match="of a backward"):
        gradients(outputs, tensors)


def test_mixed_and_half_precision(inputs_for):
    inputs = inputs_for(CELL, B, T, N, D, torch.bfloat16)
    value = torch.rand(N, D, dtype=torch.bfloat16, requires_grad=True)
    run, tensors = call(inputs, [value])
    got = run(*tensors)
    exact = [t.detach().float().requires_grad_() if t.is_floating_point() else t for t in tensors]
    wanted = run(*exact)
    assert got[0].dtype == torch.bfloat16
    for one, other in zip(
        (*got, *gradients(got, tensors)), (*wanted, *gradients(wanted, exact)), strict=True
    ):
        torch.testing.assert_close(one.float(), other, rtol=2e-2, atol=2e-2)
