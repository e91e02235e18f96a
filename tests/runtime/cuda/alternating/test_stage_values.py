"""Values and gradients of cells with stages by alternating plans, whose kernels run as C++."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, State, gate, largest, layer_norm, softmax

T, B, N, D, FEATURES = 5, 3, 2, 5, 4
CHUNK = 32
RESET = torch.rand(T, B, generator=torch.Generator().manual_seed(1)) < 0.4
CALLS = {
    "plain": {},
    "lengths": {"lengths": torch.tensor([T, 3, 0])},
    "resets": {"reset": RESET, "lengths": torch.tensor([T, 0, 4])},
}
NAMES = ["gru", "norm_lstm", "deep"]


def results(cell, backend, dtype, call, steps=T, **options):
    """What a module gives, and every gradient by name; padding is NaN."""
    torch.manual_seed(3)
    own = {"variant": "alternating"} if backend == "simulated" else {}
    rnn = rnnc.RNN(
        *(cell, FEATURES, N * D), heads=N, backend=backend, dtype=torch.float64, **own, **options
    ).to(dtype)
    torch.manual_seed(5)
    tensors = {"features": torch.randn(steps, B, FEATURES)}
    tensors |= {given.name: torch.randn(steps, B, N * D) for given in cell.inputs}
    tensors = {name: t.to(dtype).requires_grad_() for name, t in tensors.items()}
    x, inputs = tensors["features"], {given.name: tensors[given.name] for given in cell.inputs}
    if "lengths" in call:
        padding = torch.arange(steps)[:, None] >= call["lengths"]
        x = x.masked_fill(padding[..., None], torch.nan)
    y, last, *_ = rnn(x, **({"inputs": inputs} if inputs else {}), **call)
    last = last if isinstance(last, tuple) else (last,)
    found = {"y": y, **{f"last {i}": state for i, state in enumerate(last)}}
    slopes = {n: torch.linspace(1, 2, r.numel()).view(r.shape).to(dtype) for n, r in found.items()}
    torch.autograd.backward(list(found.values()), list(slopes.values()))
    found |= {f"d {name}": t.grad for name, t in (*tensors.items(), *rnn.named_parameters())}
    return {name: value.detach().double() for name, value in found.items()}


def compare(cell, call, dtype=torch.float64, bound=1e-10, **options):
    """The kernels against the reference in float64."""
    found = results(cell, "simulated", dtype, call, **options)
    options.pop("save", None)
    wanted = results(cell, "reference", torch.float64, call, **options)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(
            found[name], value, rtol=bound, atol=bound, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize(
    ("name", "call"), [("gru", "plain"), ("norm_lstm", "lengths"), ("deep", "resets")]
)
def test_two_layers(name, call, staged_cells, emulated_alternating):
    compare(staged_cells.TWINS[name][0], CALLS[call], num_layers=2)
    assert {plan.direction for plan in emulated_alternating} == {"forward", "backward"}
    assert all(plan.by_head is (name != "gru") for plan in emulated_alternating)


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", NAMES)
def test_both_directions(name, call, staged_cells, emulated_alternating):
    compare(staged_cells.TWINS[name][0], CALLS[call], bidirectional=True)


def test_both_directions_of_one_cell(staged_cells, emulated_alternating):
    compare(staged_cells.gru_reset_first, CALLS["resets"], bidirectional=True)


def test_steps_in_graphs(staged_cells, emulated_alternating):
    compare(staged_cells.gru_reset_first, CALLS["plain"], steps=2 * CHUNK + 1, bound=1e-8)
    assert {plan.chunk for plan in emulated_alternating} == {CHUNK}


def test_the_forward_runs_again_where_states_alone_are_saved(staged_cells, emulated_alternating):
    compare(staged_cells.TWINS["norm_lstm"][0], CALLS["plain"], save="states")
    assert {plan.save for plan in emulated_alternating} == {"gates"}


@pytest.mark.parametrize(
    ("name", "call", "own"), [("norm_lstm", "plain", False), ("gru", "resets", True)]
)
def test_two_byte_elements(name, call, own, staged_cells, emulated_alternating):
    """Their error is at most that of a loop of torch's operations in that dtype, or little more."""
    given = staged_cells.TWINS[name][0], CALLS[call]
    wanted, loop = (
        results(given[0], "reference", dtype, given[1]) for dtype in (torch.float64, torch.bfloat16)
    )
    found = results(given[0], "simulated", torch.bfloat16, given[1])
    assert {plan.product == "own" for plan in emulated_alternating} == {own}
    for key, value in wanted.items():
        bound = 1.5 * (loop[key] - value).norm() + 2e-3 * value.norm()
        assert (found[key] - value).norm() <= bound, key


def test_norms_of_values_far_from_zero(emulated_alternating):
    """Mean 1,000 and deviation 1: squares of the values would have no digit left."""

    @rnnc.cell
    def normed(g: Gate, h: State):
        return layer_norm(g) + 0 * h

    wx = 1000 + torch.randn(2, 1, 1, 300, 1)
    wanted = torch.nn.functional.layer_norm(wx[..., 0].double(), (300,))
    (found,), _ = rnnc.scan(
        normed, wx, torch.zeros(1, 1, 300, 300), backend="simulated", variant="alternating"
    )
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-4)


@pytest.mark.parametrize("shape", [(1, N * D), (1, B, N * D), (1, T, B, N * D)], ids=len)
def test_reset_to_in_its_three_forms(shape, staged_cells, emulated_alternating):
    value = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    compare(staged_cells.gru_reset_first, {"reset": RESET, "reset_to": (value,)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in rnnc.cells.names() if rnnc.cells.get(name).has_stages]
)
def test_the_cells_of_the_library(name, emulated_alternating):
    compare(rnnc.cells.get(name), CALLS["resets"])


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_largest_of_values_far_below_zero(dim, emulated_alternating):
    """In float64 threads without a unit gave -1, and softmax then divided 0 by 0."""

    @rnnc.cell
    def far_below(s: State, *, x: Gate = gate(recurrent=False, bias=False)):
        return 0.1 * largest(x - 900) + softmax(x - 900) * s

    torch.manual_seed(2)
    wx = torch.randn(B, T, N, dim, 1, dtype=torch.float64)
    found = {}
    for backend in ("simulated", "reference"):
        given = wx.clone().requires_grad_()
        own = {"variant": "alternating"} if backend == "simulated" else {}
        (over_time,), _ = rnnc.scan(far_below, given, backend=backend, **own)
        found[backend] = over_time.detach(), *torch.autograd.grad(over_time.square().sum(), given)
    for ours, right in zip(found["simulated"], found["reference"], strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-12, atol=1e-9)
