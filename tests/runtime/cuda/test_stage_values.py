"""Values and gradients of cells with stages, whose kernels run as C++ on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.block import search
from rnnc.codegen.cuda.cluster import problem as cluster_problem
from rnnc.codegen.cuda.cluster import search as cluster_search
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


#: A head of each kind: of three blocks with shared tiles, or without, where groups are odd.
DIMS = {"block": 24, "cluster": 40}
ODD_GROUPS = 72


def module(cell, backend, dtype, dim, variant, **options):
    """A module with weights that depend on the cell's declarations alone."""
    torch.manual_seed(3)
    if backend == "simulated":
        options |= {"variant": variant, "precision": "ieee"}
    rnn = rnnc.RNN(cell, FEATURES, dim, dtype=torch.float64, backend=backend, **options)
    for name, parameter in rnn.named_parameters():
        std = parameter.shape[-1] ** -0.5 if "weight_hh" in name else 0.5
        torch.nn.init.normal_(parameter, std=std)
    return rnn.to(dtype)


def found(rnn, call, low=torch.float32):
    """Results and gradients by name, from values that `low` has; padding is NaN."""
    torch.manual_seed(4)
    dtype = next(rnn.parameters()).dtype

    def draw(*shape):
        return torch.randn(shape).to(low).to(dtype).requires_grad_()

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


def compare(cell, call, dim, dtype=torch.float32, variant="block", **options):
    """The kernels against the reference in float64."""
    got = found(module(cell, "simulated", dtype, dim, variant, **options), call)
    wanted = found(module(cell, "reference", torch.float64, dim, variant, **options), call)
    bound = 3e-5 if dtype == torch.float32 else 4e-2
    for name, value in wanted.items():
        error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
        assert error < bound, f"{name}: {error}"  # NaN is below no bound


MODULES = [(name, call, "block") for name in ("gru", "norm_lstm", "deep") for call in CALLS]
MODULES += [("gru", "lengths and resets", "cluster"), ("norm_lstm", "plain", "cluster")]
MORE = [("norm_lstm", "lengths and resets", "cluster"), ("deep", "plain", "cluster")]


@pytest.mark.parametrize(
    ("name", "call", "variant"), [*MODULES, *(pytest.param(*case, marks=slow) for case in MORE)]
)
def test_modules(name, call, variant, emulated_blocks, staged_cells, poisoned):
    compare(staged_cells.TWINS[name][0], CALLS[call], DIMS[variant], variant=variant)
    assert {plan.kind for plan in emulated_blocks} == {variant}


@slow
@pytest.mark.parametrize("name", ["gru", "norm_lstm", "deep"])
def test_clusters_with_an_odd_number_of_groups(name, emulated_blocks, staged_cells, poisoned):
    compare(staged_cells.TWINS[name][0], MASKS, ODD_GROUPS, variant="cluster")
    forward, _ = emulated_blocks
    assert forward.units // 8 % 2


@slow
@pytest.mark.parametrize("splits", [2, 4])
@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_clusters_whose_warps_share_k(
    name, splits, emulated_blocks, staged_cells, poisoned, monkeypatch
):
    monkeypatch.setattr(cluster_problem, "SPLITS", (splits,))
    limits = replace(limits_of("H200"), multiprocessors=splits)  # no other test plans for it
    monkeypatch.setattr(choose, "device_limits", lambda _: limits)
    compare(staged_cells.TWINS[name][0], MASKS, 128, torch.bfloat16, "cluster")
    forward, _ = emulated_blocks
    assert forward.splits == splits


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("norm_lstm", 5),
        ("norm_lstm", 8),  # lanes of a row divide the parts of blocks
        pytest.param("deep", 8, marks=slow),
        pytest.param("gru", 7, marks=slow),
        pytest.param("deep", 9, marks=slow),
    ],
)
def test_clusters_by_their_number_of_blocks(
    name, blocks, emulated_blocks, staged_cells, poisoned, monkeypatch
):
    monkeypatch.setattr(cluster_problem, "SIZES", (blocks,))
    monkeypatch.setattr(cluster_search, "SIZES", (blocks,))
    limits = replace(limits_of("H200"), multiprocessors=100 + blocks)  # no other test plans for it
    monkeypatch.setattr(choose, "device_limits", lambda _: limits)
    compare(staged_cells.TWINS[name][0], MASKS, 16 * blocks, variant="cluster")
    assert {plan.cluster for plan in emulated_blocks} == {blocks}


@slow
@pytest.mark.parametrize("variant", DIMS)
@pytest.mark.parametrize("name", ["gru", "norm_lstm", "deep"])
def test_both_directions_layers_and_heads(name, variant, emulated_blocks, staged_cells, poisoned):
    options = {"bidirectional": True, "heads": 2, "num_layers": 2, "save": "states"}
    dim = {"block": 40, "cluster": 80}[variant]
    compare(staged_cells.TWINS[name][0], MASKS, dim, variant=variant, **options)
    assert {plan.kind for plan in emulated_blocks} == {variant}


@slow
@pytest.mark.parametrize("variant", DIMS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["gru", "norm_lstm"])
def test_every_form_of_reset_values(
    name, reverse, variant, emulated_blocks, staged_cells, inputs_for, poisoned
):
    cell = staged_cells.TWINS[name][0]
    for form in FORMS:
        given = drawn_call(cell, SIZES[variant], form, torch.float32, inputs_for)
        check(cell, given, variant, reverse)
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
@pytest.mark.parametrize(
    ("variant", "dim", "dtype"),
    [
        ("block", 16, torch.float32),
        ("block", 16, torch.bfloat16),
        ("cluster", 48, torch.float32),
        ("cluster", 48, torch.float16),
    ],
)
@pytest.mark.parametrize("name", STAGED)
def test_cells_of_the_library(name, variant, dim, dtype, emulated_blocks, poisoned):
    if name in ("mogrifier_lstm", "nested_lstm") and (variant, dtype) != ("cluster", torch.float16):
        pytest.skip("no plan of the kind has room for its 13 or 12 matrices")
    if name == "layer_norm_slstm" and dtype != torch.float32:
        pytest.skip("it divides by a state, which is as likely to be 0 as any other number here")
    compare(rnnc.cells.get(name), MASKS, dim, dtype, variant)
    assert {plan.kind for plan in emulated_blocks} == {variant}
