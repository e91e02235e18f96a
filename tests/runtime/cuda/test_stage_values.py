"""Values and gradients of cells with stages, whose block kernels run as C++ on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.block import search
from rnnc.codegen.cuda.limits import limits_of
from rnnc.runtime.cuda import choose

from .test_mask_values import FORMS, SIZES, check, drawn_call

T, B, FEATURES = 6, 6, 5
LENGTHS = torch.tensor([6, 2, 0, 4, 1, 3])
RESET = torch.tensor([[0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0]] * 2).bool()
MASKS = {"lengths": LENGTHS, "reset": RESET}
CALLS = {"plain": {}, "lengths and resets": MASKS}
slow = pytest.mark.slow  # half a minute each, most of it in the C++ compiler
STAGED = [name for name in rnnc.cells.names() if rnnc.cells.get(name).has_stages]


def module(cell, backend, dtype, dim, **options):
    """A module with weights that depend on the cell's declarations alone."""
    torch.manual_seed(3)
    if backend == "simulated":
        options = {"variant": "block", "precision": "ieee"} | options
    rnn = rnnc.RNN(cell, FEATURES, dim, dtype=torch.float64, backend=backend, **options)
    for name, parameter in rnn.named_parameters():
        std = parameter.shape[-1] ** -0.5 if "weight_hh" in name else 0.5
        torch.nn.init.normal_(parameter, std=std)
    return rnn.to(dtype)


def found(rnn, call):
    """Results and gradients by name, from values that float32 has; padding is NaN."""
    torch.manual_seed(4)
    dtype = next(rnn.parameters()).dtype

    def draw(*shape):
        return torch.randn(shape).to(dtype).requires_grad_()

    dim, parts = rnn.hidden_size, rnn.num_layers * (2 if rnn.bidirectional else 1)
    tensors = {"x": draw(T, B, FEATURES)}
    tensors |= {f"state {s.name}": draw(parts, B, dim) for s in rnn.cell.states}
    inputs = {given.name: draw(T, B, dim) for given in rnn.cell.inputs}
    values = [draw(parts, dim) for _ in rnn.cell.states] if "reset" in call else []
    x, *first = tensors.values()
    if "lengths" in call:
        padding = torch.arange(T)[:, None] >= call["lengths"]
        x = x.masked_fill(padding[..., None], torch.nan)
    options = dict(call)
    options |= {"inputs": inputs} if inputs else {}
    options |= {"reset_to": values} if values else {}
    y, last = rnn(x, tuple(first) if len(first) > 1 else first[0], **options)
    results = (y, *(last if isinstance(last, tuple) else (last,)))
    torch.autograd.backward(results, [draw(*result.shape).detach() for result in results])
    tensors |= {**inputs, **dict(rnn.named_parameters())}
    tensors |= {f"reset to {place}": value for place, value in enumerate(values)}
    named = {f"result {place}": result.detach() for place, result in enumerate(results)}
    return named | {f"d {name}": tensor.grad for name, tensor in tensors.items()}


def compare(cell, call, dim, dtype=torch.float32, **options):
    """The kernels against the reference in float64."""
    got = found(module(cell, "simulated", dtype, dim, **options), call)
    options.pop("variant", None)
    wanted = found(module(cell, "reference", torch.float64, dim, **options), call)
    bound = 3e-5 if dtype == torch.float32 else 4e-2
    for name, value in wanted.items():
        error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
        assert error < bound, f"{name}: {error}"  # NaN is below no bound


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["gru", "norm_lstm", "deep"])
def test_modules(name, call, emulated_blocks, staged_cells, poisoned):
    compare(staged_cells.TWINS[name][0], CALLS[call], 24)
    assert {plan.kind for plan in emulated_blocks} == {"block"}


@slow
@pytest.mark.parametrize("name", ["gru", "norm_lstm", "deep"])
def test_both_directions_layers_and_heads(name, emulated_blocks, staged_cells, poisoned):
    options = {"bidirectional": True, "heads": 2, "num_layers": 2, "save": "states"}
    compare(staged_cells.TWINS[name][0], MASKS, 40, **options)


@slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_every_form_of_reset_values(
    name, reverse, emulated_blocks, staged_cells, inputs_for, poisoned
):
    cell = staged_cells.TWINS[name][0]
    for form in FORMS:
        given = drawn_call(cell, SIZES["block"], form, torch.float32, inputs_for)
        check(cell, given, "block", reverse)
    assert {plan.resets for plan in emulated_blocks} == {"constant", "ahead"}


@slow
@pytest.mark.parametrize("name", ["norm_lstm", "deep"])
def test_eight_rows_per_block(name, emulated_blocks, staged_cells, poisoned, monkeypatch):
    limits = replace(limits_of("H200"), multiprocessors=3)  # no other test plans for it
    monkeypatch.setattr(choose, "device_limits", lambda _: limits)
    monkeypatch.setattr(search, "ROWS", (8,))
    compare(staged_cells.TWINS[name][0], MASKS, 20)
    assert {(plan.kind, plan.rows) for plan in emulated_blocks} == {("block", 8)}


@slow
@pytest.mark.parametrize(("dim", "dtype"), [(16, torch.float32), (16, torch.bfloat16)])
@pytest.mark.parametrize("name", STAGED)
def test_cells_of_the_library(name, dim, dtype, emulated_blocks, poisoned):
    if name in ("mogrifier_lstm", "nested_lstm"):  # 13 and 12 matrices
        pytest.skip("no block has room for its matrices")
    if name == "layer_norm_slstm" and dtype == torch.bfloat16:
        pytest.skip("it divides by a state, which is as likely to be 0 as any other number here")
    compare(rnnc.cells.get(name), MASKS, dim, dtype)
    assert {plan.kind for plan in emulated_blocks} == {"block"}
