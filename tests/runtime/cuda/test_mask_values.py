"""Values and gradients of calls with masks, whose CUDA kernels run as C++ on the CPU."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.plan import Plan
from rnnc.runtime.cuda import choose, ready

NAN = float("nan")
# B, T, N, D of each kind of plan: three tiles of rows, and blocks that share a head.
SIZES = {"block": (11, 7, 1, 24), "cluster": (19, 6, 1, 72), "grid": (19, 5, 1, 72)}
FORMS = {"init": None, "shared": (), "rows": ("B",), "stored": ("B", "T")}


def drawn_call(cell, sizes, form, dtype, inputs_for, with_lengths=True, with_resets=True):
    """Inputs whose padding holds NaN, masks, and gradients of the results."""
    batch, steps, heads, dim = sizes
    inputs = inputs_for(cell, *sizes, dtype)
    lengths = torch.randint(0, steps + 1, (batch,)) if with_lengths else None
    if with_lengths:
        lengths[torch.randperm(batch)[:3]] = torch.tensor([0, 1, steps])
    reset = torch.rand(batch, steps) < random.choice((0.2, 0.5, 1.1)) if with_resets else None
    pad = torch.zeros(batch, steps, dtype=torch.bool)
    if with_lengths:
        pad = torch.arange(steps) >= lengths[:, None]
    values = None
    if with_resets and FORMS[form] is not None:
        shape = [{"B": batch, "T": steps}[axis] for axis in FORMS[form]]
        values = [torch.rand(*shape, heads, dim).to(dtype) + 0.5 for _ in cell.states]
        if form == "stored":
            values = [v.masked_fill((~reset | pad)[..., None, None], NAN) for v in values]
        else:
            values = [v.requires_grad_() for v in values]
    inputs.wx = inputs.wx.detach().masked_fill(pad[..., None, None, None], NAN).requires_grad_()
    over_time = [torch.randn(batch, steps, heads, dim).to(dtype) for _ in cell.states]
    over_time = [s.masked_fill(pad[..., None, None], NAN) for s in over_time]
    seeds = [*over_time, *(torch.randn(batch, heads, dim).to(dtype) for _ in cell.states)]
    return inputs, {"lengths": lengths, "reset": reset, "reset_to": values}, seeds


def results(cell, inputs, masks, seeds, backend, double=False, **choice):
    def leaf(tensor):
        if tensor is None or not tensor.is_floating_point():
            return tensor
        tensor, needs = tensor.detach(), tensor.requires_grad
        return (tensor.double() if double else tensor).requires_grad_(needs)

    inputs = inputs.map(leaf)
    values = masks["reset_to"]
    values = None if values is None else [leaf(v) for v in values]
    over_time, last = rnnc.scan(
        cell, inputs.wx, inputs.R, inputs.b, inputs.states, R_diag=inputs.R_diag,
        params=inputs.params, backend=backend, **(masks | {"reset_to": values}), **choice,
    )  # fmt: skip
    found = {f"over time {i}": s for i, s in enumerate(over_time)}
    found |= {f"last {i}": s for i, s in enumerate(last)}
    leaves = inputs.named()
    leaves |= {f"reset to {i}": v for i, v in enumerate(values or ()) if v.requires_grad}
    seeded = [(r, leaf(s)) for r, s in zip(found.values(), seeds, strict=True) if r.requires_grad]
    gradients = torch.autograd.grad(
        [r for r, _ in seeded],
        list(leaves.values()),
        [s.detach() for _, s in seeded],
        allow_unused=True,
        materialize_grads=True,
    )
    found |= {f"d {name}": g for name, g in zip(leaves, gradients, strict=True)}
    return {name: value.detach() for name, value in found.items()}


def check(cell, given, kind, reverse):
    """The kernels against torch's loop in float64."""
    inputs, masks, seeds = given
    wanted = results(cell, inputs, masks, seeds, "reference", double=True, reverse=reverse)
    choice = {"variant": kind, "save": random.choice(("gates", "states")), "precision": "ieee"}
    got = results(cell, inputs, masks, seeds, "simulated", reverse=reverse, **choice)
    bound = 3e-5 if inputs.wx.dtype == torch.float32 else 4e-2
    for name, value in wanted.items():
        assert not got[name].isnan().any(), name
        error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
        assert error < bound, f"{name}: {error}"


slow = pytest.mark.slow  # half a minute each, most of it in the C++ compiler
CASES = [
    pytest.param(kind, reverse, marks=() if (kind, reverse) == ("block", False) else slow)
    for kind in SIZES
    for reverse in (False, True)
]


@pytest.mark.parametrize(("kind", "reverse"), CASES)
def test_lengths_and_resets(kind, reverse, emulated_blocks, inputs_for, poisoned):
    for form in FORMS:
        given = drawn_call(rnnc.cells.lstm, SIZES[kind], form, torch.float32, inputs_for)
        check(rnnc.cells.lstm, given, kind, reverse)
    assert {plan.kind for plan in emulated_blocks} == {kind}


@slow
@pytest.mark.parametrize("reverse", [False, True])
def test_blocks_of_eight_rows(reverse, emulated_blocks, inputs_for, poisoned, monkeypatch):
    """They take less time where tiles are more than places."""
    limits = replace(limits_of("H200"), multiprocessors=1)
    monkeypatch.setattr(choose, "device_limits", lambda _: limits)
    for form in ("init", "rows"):
        given = drawn_call(rnnc.cells.lstm, (19, 7, 1, 24), form, torch.float32, inputs_for)
        check(rnnc.cells.lstm, given, "block", reverse)
    assert {(plan.kind, plan.rows) for plan in emulated_blocks} == {("block", 8)}


@pytest.fixture
def no_room(monkeypatch):
    """No shared memory for values after a reset: kernels load them where rows restart."""
    with_room = Plan.with_stored_resets
    monkeypatch.setattr(
        Plan, "with_stored_resets", lambda plan, cell, most: with_room(plan, cell, 0)
    )
    _forget_plans()
    yield
    _forget_plans()


def _forget_plans():
    choose.choose_plan.cache_clear()
    ready.ready_for.cache_clear()


@pytest.mark.parametrize(
    ("kind", "reverse"), [case for case in CASES if case.values[0] in ("block", "cluster")]
)
def test_stored_values_without_room(kind, reverse, no_room, emulated_blocks, inputs_for, poisoned):
    given = drawn_call(rnnc.cells.lstm, SIZES[kind], "stored", torch.float32, inputs_for)
    check(rnnc.cells.lstm, given, kind, reverse)
    assert {(plan.kind, plan.resets) for plan in emulated_blocks} == {(kind, "late")}


@slow
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", ["gru", "slstm", "clipped", "elman"])
def test_other_cells(name, kind, clipped, emulated_blocks, inputs_for, poisoned):
    """Gates without input, four states, params, a nonlinear backward, one state."""
    cell = clipped if name == "clipped" else rnnc.cells.get(name)
    reverse = random.random() < 0.5
    for form, masks in (("rows", {}), ("stored", {}), ("init", {"with_resets": False})):
        given = drawn_call(cell, SIZES[kind], form, torch.float32, inputs_for, **masks)
        check(cell, given, kind, reverse)


@slow
@pytest.mark.parametrize("kind", SIZES)
def test_half_precision(kind, emulated_blocks, inputs_for, poisoned):
    for form in ("shared", "stored"):
        given = drawn_call(rnnc.cells.lstm, SIZES[kind], form, torch.bfloat16, inputs_for)
        check(rnnc.cells.lstm, given, kind, reverse=form == "stored")
