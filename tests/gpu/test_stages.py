"""Cells with stages on a GPU: each kind of plan computes what the reference does, by name."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.kinds import kinds_for

T, B, FEATURES = 37, 11, 24
VARIANTS = [name for name, kind in kinds_for().items() if kind.takes_stages]
# A head's units, with a whole number of k-tiles and without: those of a grid are in many blocks.
DIMS = {name: (96, 80) if name == "grid" else (32, 20) for name in VARIANTS}
CELLS = ["gru", "norm_lstm", "lem", "block_gru", "multiplicative_lstm", "rhn", "mgu"]
DTYPES = [torch.bfloat16, torch.float16, torch.float32]
CASES = [(name, dtype) for name in CELLS for dtype in DTYPES]
# It compares its values: rounding to two bytes decides otherwise here and there.
CASES += [("deep", torch.float32)]
LENGTHS = torch.tensor([37, 0, 1, 30, 12, 36, 2, 5, 20, 37, 9])
RESET = torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.2
MASKS = {"lengths": LENGTHS, "reset": RESET}

# Heads that have a plan only without the margin of registers, by a variant that is named
# (tests/codegen/cuda/test_staged_sizes.py).
LARGE = [
    ("layer_norm_lstm", torch.bfloat16, "block", 80),
    ("layer_norm_lstm", torch.bfloat16, "cluster", 384),
    ("mogrifier_lstm", torch.bfloat16, "block", 8),
    ("mogrifier_lstm", torch.bfloat16, "grid", 192),
    ("wmc_lstm", torch.float32, "block", 24),
    ("mogrifier_lstm", torch.float32, "cluster", 48),
    ("rhn", torch.float32, "grid", 768),
    ("mgu", torch.bfloat16, "grid", 2376),
    ("layer_norm_lstm", torch.bfloat16, "cluster", 160),
    ("joint_norm_lstm", torch.bfloat16, "cluster", 224),
    ("mut3", torch.bfloat16, "cluster", 288),
    ("layer_norm_lstm", torch.float32, "grid", 8),
    ("lem", torch.float32, "grid", 792),
    ("mogrifier_lstm", torch.bfloat16, "grid", 576),
    ("layer_norm_lstm", torch.float32, "block", 48),
    ("layer_norm_lstm", torch.float32, "grid", 632),
]


@pytest.fixture
def cell(name, staged_cells) -> rnnc.Cell:
    twin = staged_cells.TWINS.get(name)
    return rnnc.cells.get(name) if twin is None else twin[0]


@pytest.fixture(params=VARIANTS)
def variant(request) -> str:
    return request.param


def module(cell, backend, dtype, dim, variant=None, **options):
    """Modules with the same weights, but for their rounding to the dtype."""
    torch.manual_seed(3)
    if variant is not None:
        options |= {"variant": variant, "precision": "ieee"}
    rnn = rnnc.RNN(cell, FEATURES, dim, dtype=torch.float64, backend=backend, **options)
    for name, parameter in rnn.named_parameters():
        std = parameter.shape[-1] ** -0.5 if "weight_hh" in name else 0.5
        torch.nn.init.normal_(parameter, std=std)
    return rnn.to(dtype).cuda()


def found(rnn, low, dim, call, scale=1.0):
    """Return results and gradients by name, of inputs rounded to the dtype `low`.

    `scale` multiplies x, whose padding is NaN.
    """
    rnn.zero_grad()
    dtype, generator = next(rnn.parameters()).dtype, torch.Generator().manual_seed(4)

    def draw(*shape, by=1.0):
        drawn = by * torch.randn(shape, dtype=torch.float64, generator=generator)
        return drawn.to(low).to(dtype).cuda().requires_grad_()

    x, parts = draw(T, B, FEATURES, by=scale), rnn.num_layers * (2 if rnn.bidirectional else 1)
    inputs = {given.name: draw(T, B, dim) for given in rnn.cell.inputs}
    first = tuple(draw(parts, B, dim) for _ in rnn.cell.states)
    given, call = x, {key: value.cuda() for key, value in call.items()}
    if "lengths" in call:
        padding = torch.arange(T, device="cuda")[:, None] >= call["lengths"]
        given = x.masked_fill(padding[..., None], torch.nan)
    state = first if len(first) > 1 else first[0]
    y, last = rnn(given, state, **({"inputs": inputs} if inputs else {}), **call)
    results = (y, *(last if isinstance(last, tuple) else (last,)))
    torch.autograd.backward(results, [draw(*result.shape).detach() for result in results])
    tensors = {"x": x, **inputs, **dict(rnn.named_parameters())}
    tensors |= {f"state {place}": tensor for place, tensor in enumerate(first)}
    named = {f"result {place}": result.detach() for place, result in enumerate(results)}
    return named | {f"d {name}": tensor.grad for name, tensor in tensors.items()}


def compare(cell, variant, dtype, dim, call, errors_are_small, **options):
    """Kernels against the reference in their dtype, and in float64.

    Some inputs enlarge roundings: torch's own error differs five-fold between inputs that differ by
    0.1 %. Where it seems too small, it is the largest of those at a few such inputs.
    """
    low = module(cell, "reference", dtype, dim, **options)
    exact = module(cell, "reference", torch.float64, dim, **options)
    kernels = module(cell, "cuda", dtype, dim, variant, **options)
    exact.load_state_dict({name: value.double() for name, value in low.state_dict().items()})
    got, own, truth = (found(rnn, dtype, dim, call) for rnn in (kernels, low, exact))

    def alike():
        for place in range(1, 6):
            yield tuple(found(rnn, dtype, dim, call, 1 + place / 1000) for rnn in (low, exact))

    errors_are_small(got, own, truth, alike)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_modules(cell, variant, dtype, errors_are_small, poisoned):
    compare(cell, variant, dtype, DIMS[variant][0], {}, errors_are_small)


@pytest.mark.parametrize(("name", "dtype"), [c for c in CASES if c[1] != torch.float16])
def test_lengths_and_resets(cell, variant, dtype, errors_are_small, poisoned):
    dim = DIMS[variant][1]
    compare(cell, variant, dtype, dim, MASKS, errors_are_small, bidirectional=True)


@pytest.mark.parametrize("call", [{}, MASKS], ids=["whole", "masked"])
@pytest.mark.parametrize(("name", "dtype", "variant", "dim"), LARGE)
def test_heads_without_the_margin_of_registers(
    cell, dtype, variant, dim, call, errors_are_small, poisoned
):
    compare(cell, variant, dtype, dim, call, errors_are_small)


@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_float64_alternates(name, cell):
    options = {"heads": 2, "bidirectional": True}
    kernels, exact = (
        found(module(cell, *where, **options), torch.float64, 24, MASKS)
        for where in (("cuda", torch.float64, 24, "alternating"), ("reference", torch.float64, 24))
    )
    for name, value in exact.items():
        torch.testing.assert_close(
            kernels[name], value, rtol=1e-9, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_layers_heads_and_saved_states(name, cell, variant, errors_are_small):
    options = {"num_layers": 2, "heads": 2, "save": "states"}
    compare(cell, variant, torch.bfloat16, 128, {}, errors_are_small, **options)


@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_a_call_has_the_same_bits_again(name, cell, variant, same_bits):
    rnn = module(cell, "cuda", torch.bfloat16, 64, variant)
    calls = []
    for _ in range(4):  # the last are replayed
        calls.append({n: t.clone() for n, t in found(rnn, torch.bfloat16, 64, MASKS).items()})
    for again in calls[1:]:
        same_bits(again, calls[0])


@pytest.mark.parametrize("norm", ["layer_norm_rnn", "joint_norm_lstm"])
def test_a_norm_far_from_zero(norm, variant):
    """Mean 1,000 and deviation 1: squares of the values would have no digit left."""
    cell = rnnc.cells.get(norm)
    dim, gates = DIMS[variant][0], len(cell.input_gates)
    wx = 1000 + torch.randn(B, 1, 1, dim, gates, device="cuda")
    R = torch.zeros(gates, 1, dim, dim, device="cuda")
    params = {p.name: torch.full((1, dim), p.init, device="cuda") for p in cell.params}
    found, wanted = (
        rnnc.scan(cell, wx.to(dtype), R.to(dtype), params=values, **options)[0]
        for dtype, values, options in (
            (torch.float32, params, {"variant": variant, "precision": "ieee"}),
            (torch.float64, {n: p.double() for n, p in params.items()}, {"backend": "reference"}),
        )
    )
    torch.testing.assert_close(found[0].double(), wanted[0], rtol=0, atol=2e-4)


def test_other_kinds_refuse_by_name(staged_cells):
    wx = torch.randn(2, 3, 1, 256, 3, device="cuda", dtype=torch.bfloat16)
    R = torch.randn(3, 1, 256, 256, device="cuda", dtype=torch.bfloat16)
    for name in set(kinds_for()) - set(VARIANTS):
        with pytest.raises(rnnc.PlanError, match=f"no reductions, for {name} kernels"):
            rnnc.scan(staged_cells.gru_reset_first, wx, R, variant=name)
