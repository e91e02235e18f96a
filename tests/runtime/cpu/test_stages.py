"""Kernels of cells with stages compute what the reference does: results and gradients by name."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, State, clip_gradient, gate, layer_norm, mean, sigmoid, softmax, tanh
from rnnc.codegen.stages.exchange import Statistic

T, B, FEATURES = 6, 4, 5
LENGTHS = torch.tensor([6, 2, 0, 4])
RESET = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]] * 2, dtype=torch.bool)
CALLS = {
    "plain": {},
    "lengths": {"lengths": LENGTHS},
    "resets": {"reset": RESET},
    "lengths and resets": {"lengths": LENGTHS, "reset": RESET},
}


@rnnc.cell
def looped(v: Gate, w: Gate, h: State, c: State):
    """Loops before and after an exchange, and a clipped gradient on its way through one."""
    y = rnnc.repeat(4, lambda a: a + 0.1 * tanh(v - a), h)
    z = rnnc.repeat(3, lambda a: 0.9 * a + 0.1 * tanh(a), w(clip_gradient(sigmoid(y), 0.01)))
    return z + mean(y), layer_norm(0.5 * c + z)


def module(cell: rnnc.Cell, backend: str, dtype: torch.dtype, **options: object) -> rnnc.RNN:
    """A module with weights that depend on the cell's declarations alone."""
    torch.manual_seed(3)
    rnn = rnnc.RNN(cell, FEATURES, 6, dtype=torch.float64, backend=backend, **options)
    for parameter in rnn.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return rnn.to(dtype)


def found(rnn: rnnc.RNN, dtype: torch.dtype, **call: object) -> dict[str, torch.Tensor]:
    """Outputs, last states and gradients by name; padding is NaN."""
    torch.manual_seed(4)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()

    x, parts = draw(T, B, FEATURES), rnn.num_layers * (2 if rnn.bidirectional else 1)
    inputs = {given.name: draw(T, B, 6) for given in rnn.cell.inputs}
    first = tuple(draw(parts, B, 6) for _ in rnn.cell.states)
    given = x
    if "lengths" in call:
        padding = torch.arange(T)[:, None] >= call["lengths"]
        given = x.masked_fill(padding[..., None], torch.nan)
    state = first if len(first) > 1 else first[0]
    y, last = rnn(given, state, **({"inputs": inputs} if inputs else {}), **call)
    results = (y, *(last if isinstance(last, tuple) else (last,)))
    seeds = [torch.randn(t.shape, dtype=torch.float64).to(dtype) for t in results]
    torch.autograd.backward(results, seeds)
    tensors = {"x": x, **inputs, **dict(rnn.named_parameters())}
    tensors |= {f"state {place}": tensor for place, tensor in enumerate(first)}
    named = {f"result {place}": result for place, result in enumerate(results)}
    return named | {f"d {name}": tensor.grad for name, tensor in tensors.items()}


def compare(cell: rnnc.Cell, call: dict[str, object], **options: object) -> None:
    dtype, bound = options.pop("dtype", torch.float64), options.pop("bound", 1e-12)
    kernels = found(module(cell, "cpu", dtype, **options), dtype, **call)
    wanted = found(module(cell, "reference", torch.float64, **options), torch.float64, **call)
    assert kernels.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            kernels[name].double(),
            tensor,
            rtol=bound,
            atol=bound,
            msg=lambda m, n=name: f"{n}: {m}",
        )


@rnnc.cell
def between(z: Gate, u: Gate, h: State, n: Gate = gate(input=False), r: Gate = gate()):
    """The matrix of a called gate lies between those of two gates whose numbers follow."""
    return sigmoid(z) * h + tanh(n(sigmoid(r) * h) + u)


@pytest.fixture(params=["gru", "norm_lstm", "deep", "looped"])
def cell(request, staged_cells):
    return looped if request.param == "looped" else staged_cells.TWINS[request.param][0]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_modules_of_two_layers(cell, call):
    compare(cell, call, num_layers=2)


@pytest.mark.parametrize(
    "call", [CALLS["plain"], CALLS["lengths and resets"]], ids=["plain", "masked"]
)
def test_both_directions_and_heads(cell, call):
    compare(cell, call, bidirectional=True, heads=2)


def test_float32(cell):
    compare(cell, {}, dtype=torch.float32, bound=1e-4)


@pytest.mark.parametrize("heads", [1, 2])
def test_a_matrix_of_a_called_gate_between_others(heads, poisoned):
    compare(between, CALLS["lengths and resets"], heads=heads)


@rnnc.cell
def again(n: Gate, h: State):
    """A value of a called gate's argument is reduced later, beside the gate."""
    weights = softmax(h)
    first, second = layer_norm((weights, n(sigmoid(weights))), eps=0.1)
    return first * second


def test_a_value_of_an_argument_that_is_reduced_later():
    compare(again, CALLS["lengths and resets"])


def test_saving_states_computes_the_same_gradients(cell):
    compare(cell, {}, save="states")


def test_a_call_without_gradients_is_one_kernel_of_all_layers(cell):
    rnn = module(cell, "cpu", torch.float64, num_layers=2)
    inputs = {given.name: torch.randn(T, B, 6).double() for given in cell.inputs}
    x, more = torch.randn(T, B, FEATURES, dtype=torch.float64), {"inputs": inputs} if inputs else {}
    wanted = rnn(x, **more)[0].detach()
    with torch.no_grad():
        torch.testing.assert_close(rnn(x, **more)[0], wanted, rtol=1e-12, atol=1e-12)


def test_steps_are_those_of_a_sequence(staged_cells):
    rnn = module(staged_cells.gru_reset_first, "cpu", torch.float64, num_layers=2)
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    state = None
    for step, wanted in zip(x, rnn(x)[0], strict=True):
        y, state = rnn.step(step, state)
        torch.testing.assert_close(y, wanted, rtol=1e-12, atol=1e-12)


def test_rows_that_do_not_run_take_no_part():
    @rnnc.cell
    def normed(g: Gate, h: State):
        return tanh(layer_norm(g + rnnc.log(h)))

    rnn = module(normed, "cpu", torch.float64)
    torch.nn.init.zeros_(rnn.weight_hh_l0)
    x = torch.randn(T, B, FEATURES, dtype=torch.float64)
    first = torch.full((1, B, 6), 2.0, dtype=torch.float64)
    first[0, 2] = torch.nan  # the row of no step
    y, _ = rnn(x[:1], first, lengths=torch.tensor([1, 1, 0, 1]))
    y.sum().backward()
    assert rnn.weight_ih_l0.grad.isfinite().all()
    assert rnn.weight_hh_l0.grad.isfinite().all()


@pytest.mark.parametrize("dim", [1, 3, 64, 257])
def test_norms_are_as_exact_as_torchs(dim):
    @rnnc.cell
    def normed(g: Gate = rnnc.gate(recurrent=False), h: State = rnnc.state()):
        return layer_norm(g)

    wx = 1000 + torch.randn(2, 1, 1, dim, 1, generator=torch.Generator().manual_seed(0))
    (y,), _ = rnnc.scan(normed, wx, backend="cpu")
    wanted = torch.nn.functional.layer_norm(wx[:, 0, ..., 0].double(), (dim,))
    torch.testing.assert_close(y[:, 0].double(), wanted, rtol=0, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_norm_of_one_unit_passes_no_gradient_on(dtype):
    """Sums of the norm of the gates are linear in those of the norm of c, which cancel."""
    cell, gates = rnnc.cells.joint_norm_lstm, 4
    torch.manual_seed(0)
    wx = torch.randn(B, T, 1, 1, gates, dtype=dtype)
    R = torch.randn(gates, 1, 1, 1, dtype=dtype)
    params = {p.name: torch.randn(1, 1, dtype=dtype).requires_grad_() for p in cell.params}
    rnnc.scan(cell, wx, R, params=params, backend="cpu")[0][0].square().sum().backward()
    for name in ("gain_i", "b_i", "gain_f", "b_f", "gain_z", "b_z", "gain_c"):
        assert params[name].grad.item() == 0, name
    for name in ("b_c", "gain_o"):
        assert params[name].grad.item() != 0, name


def test_a_statistic_of_no_number_is_not_a_number():
    @rnnc.cell
    def peak(g: Gate = rnnc.gate(recurrent=False), h: State = rnnc.state()):
        return rnnc.largest(g)

    wx = torch.tensor([[1.0, torch.nan, 2.0], [-3.0, -2.0, -2.5]])[:, None, None, :, None]
    (y,), _ = rnnc.scan(peak, wx, backend="cpu")
    assert y[0].isnan().all()
    assert (y[1] == -2).all()
    assert Statistic.words("largest") == ("largest", "ties")
