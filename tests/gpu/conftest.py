"""Tests on a CUDA device: skipped where there is none. Inputs, results and errors by name."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.kinds import kinds_for
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import PlanError, Shape
from rnnc.runtime.cuda.driver.device import device_limits
from torch import Tensor

# cuBLAS repeats its sums only with buffers of its own; read when it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

# Values are held against float64 at full precision, torch's own modules' too. The tests of TF32 ask
# for it (test_tf32.py). The older flag leaves torch's own readers of it content.
if torch.cuda.is_available():
    torch.backends.cudnn.allow_tf32 = False

HERE = Path(__file__).parent
FLOOR = 3  # eps of the dtype: what rounding alone may cost where torch happens to be exact
# The reference itself is float64: its own rounding is allowed, as a cell's dynamics amplify it.
FLOAT64_FLOOR = 1e-11


# Without a device only a file that is named on the command line is collected, and skipped.
collect_ignore_glob = [] if torch.cuda.is_available() else ["*"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    without = pytest.mark.skip(reason="no CUDA device: torch.cuda.is_available() is False")
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if not torch.cuda.is_available():
            item.add_marker(without)
    part = os.environ.get("RNNC_TEST_PART")
    if part:
        kept = part_of(ours, part)
        config.hook.pytest_deselected(items=[item for item in ours if item not in kept])
        items[:] = [item for item in items if item in kept or item not in ours]


def part_of(items: list[pytest.Item], part: str) -> set[pytest.Item]:
    """One part of the tests, such as "1/4": each function's cases are dealt out one by one.

    The cases of a function are shuffled by their names first, the same way each time: in their own
    order every fourth may be of one kind of plan, which takes longer than the others.
    """
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"PART={part}: wanted a part such as 1/4")

    def place(item: pytest.Item) -> tuple[str, int]:
        return item.nodeid.partition("[")[0], zlib.crc32(item.nodeid.encode())

    return set(sorted(items, key=place)[int(number) - 1 :: int(count)])


def skip_without_plan(cell, heads, dim, batch, dtype, variant) -> None:
    """Skip the test, in the planner's words, where blocks cannot share heads of such a cell."""
    if variant not in ("cluster", "grid"):
        return  # these fit, or the test fails
    shape = Shape(heads, dim, max(batch, 1), dtype=str(dtype).removeprefix("torch."))
    try:
        plan_for(cell, shape, device_limits(torch.cuda.current_device()), variant)
    except PlanError as error:
        pytest.skip(str(error))


def draw_inputs(inputs_for, cell, shape, dtype, variant=None, *, time_first=False, device="cuda"):
    """Random inputs of shape (B, T, N, D) on a device; the strides of wx as the caller wants.

    The test is skipped where there is no plan of a variant for them.
    """
    batch, _, heads, dim = shape
    skip_without_plan(cell, heads, dim, batch, dtype, variant)

    def move(tensor: Tensor) -> Tensor:
        moved = tensor.detach().to(device)
        if time_first and moved.ndim == 5:
            moved = moved.transpose(0, 1).contiguous().transpose(0, 1)
        return moved.requires_grad_()

    with torch.device(device):  # millions of numbers are drawn faster there
        drawn = inputs_for(cell, *shape, dtype)
    return drawn.map(move)


def draw_seeds(cell, inputs) -> dict[str, Tensor]:
    """A random gradient for each output."""
    wx, state = inputs.wx, inputs.states[0]
    batch, steps, heads, dim, _ = wx.shape
    over_time = {f"{s.name} over time": (batch, steps, heads, dim) for s in cell.states}
    last = {f"{s.name} last": (batch, heads, dim) for s in cell.states}
    return {
        name: torch.randn(shape, device=state.device).to(state.dtype)
        for name, shape in (over_time | last).items()
    }


def compute(cell, inputs, seeds, backend="cuda", **choice) -> dict[str, Tensor]:
    """Every output, and every input's gradient, by name. `seeds` says which outputs have one."""
    over_time, last = rnnc.scan(
        cell,
        inputs.wx,
        inputs.R,
        inputs.b,
        inputs.states,
        R_diag=inputs.R_diag,
        params=inputs.params,
        inputs=inputs.inputs or None,
        backend=backend,
        **choice,
    )
    outputs = {}
    for spec, sequence, final in zip(cell.states, over_time, last, strict=True):
        outputs |= {f"{spec.name} over time": sequence, f"{spec.name} last": final}
    named = inputs.named()
    # States over no steps may hang on nothing.
    seeded = {name: seed for name, seed in seeds.items() if outputs[name].requires_grad}
    found = torch.autograd.grad(
        [outputs[name] for name in seeded],
        list(named.values()),
        list(seeded.values()),
        allow_unused=True,
    )
    gradients = {
        f"gradient of {name}": torch.zeros_like(tensor) if g is None else g
        for (name, tensor), g in zip(named.items(), found, strict=True)
    }
    return {name: value.detach() for name, value in (outputs | gradients).items()}


def relative_error(got: Tensor, wanted: Tensor) -> float:
    """The norm of the difference, in units of the norm of what is wanted."""
    if not wanted.numel():
        return 0.0
    scale = max(wanted.double().norm().item(), 1e-30)
    return (got.double() - wanted.double()).norm().item() / scale


def check_errors(got, own, truth, draws=tuple) -> None:
    """Each error stays below twice torch's own at the same dtype, plus a few roundings.

    `draws` gives own and true results of other inputs alike. It is called where an error seems
    large, since torch's own error may be small by chance: of all inputs the largest counts.
    """
    assert list(got) == list(own) == list(truth)
    for name, exact in truth.items():
        assert got[name].shape == exact.shape, name
        assert got[name].dtype == own[name].dtype, name
    if large_errors(got, [(own, truth)]):
        wrong = large_errors(got, [(own, truth), *draws()])
        assert not wrong, "\n".join(wrong)


def large_errors(got, pairs) -> list[str]:
    """Errors beyond the bound, in words; `pairs` are own and true results, those of got first."""
    (own, truth), *_ = pairs
    wrong = []
    for name, exact in truth.items():
        theirs = max(relative_error(a[name], b[name]) for a, b in pairs)
        if not math.isfinite(theirs):
            continue  # beyond the range of the dtype, where torch overflows too
        exactly = own[name].dtype == torch.float64
        floor = FLOAT64_FLOOR if exactly else FLOOR * torch.finfo(own[name].dtype).eps
        bound = 2 * theirs + floor
        error = relative_error(got[name], exact)
        if not error <= bound:  # NaN is no number below a bound
            wrong.append(f"{name}: error {error:.2e}, allowed {bound:.2e}, torch {theirs:.2e}")
    return wrong


def check_equal(got, wanted) -> None:
    """The same bits, name by name."""
    assert list(got) == list(wanted)
    wrong = []
    for name in wanted:
        # As integers, so that a NaN equals itself.
        width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[wanted[name].element_size()]
        ours, theirs = (t.contiguous().view(width) for t in (got[name], wanted[name]))
        if not torch.equal(ours, theirs):
            wrong.append(f"{name}: {int((ours != theirs).sum())} of {ours.numel()} differ")
    assert not wrong, "\n".join(wrong)


@pytest.fixture(params=[kind for kind in kinds_for() if kind not in ("walk", "scan")])
def variant(request) -> str:
    """Every kind of plan that runs cells with dense matrices; test_walk.py has the others."""
    return request.param


@pytest.fixture
def shape(variant) -> tuple[int, int, int, int]:
    """B, T, N, D of a small call: a whole graph of steps and a rest, and units to share."""
    return {"cluster": (5, 40, 2, 250), "grid": (17, 40, 1, 250)}.get(variant, (5, 40, 3, 40))


@pytest.fixture
def dim(variant) -> int:
    """Units of a head, not a round number: more where several blocks share them."""
    return 250 if variant in ("cluster", "grid") else 40


# Tests cannot import each other: functions come as fixtures.
@pytest.fixture
def draw(inputs_for) -> Callable:
    return lambda *args, **options: draw_inputs(inputs_for, *args, **options)


@pytest.fixture
def needs_plan() -> Callable:
    return skip_without_plan


@pytest.fixture
def seeds_for() -> Callable:
    return draw_seeds


@pytest.fixture
def results() -> Callable:
    return compute


@pytest.fixture
def errors_are_small() -> Callable:
    return check_errors


@pytest.fixture
def same_bits() -> Callable:
    return check_equal


@pytest.fixture
def check_call(draw, errors_are_small) -> Callable:
    """The kernels of a call of a cell without dense matrices, against torch's loops."""

    def checked(
        call_of, variant, cell, sizes, dtype, *masks, time_first=False, save="gates", **options
    ):
        torch.manual_seed(sum(sizes))

        def drawn():
            inputs = draw(cell, sizes, getattr(torch, dtype), time_first=time_first)
            return call_of(cell, inputs, *masks, **options)

        def references(call):
            return call.run("reference"), call.run("reference", double=True)

        call = drawn()
        got, own = call.run("cuda", variant=variant, save=save), references(call)
        errors_are_small(got, *own, lambda: [references(drawn()) for _ in range(3)])

    return checked


@pytest.fixture
def both_directions() -> Callable:
    """A module's layers in both directions, with lengths, against the same module in float64."""

    def checked(variant: str, dtype: str) -> None:
        options = {"heads": 2, "bidirectional": True, "num_layers": 2}
        on = {"device": "cuda", "dtype": getattr(torch, dtype)}
        torch.manual_seed(0)
        ours = rnnc.RNN(rnnc.cells.mingru, 12, 32, variant=variant, **options).to(**on)
        theirs = rnnc.RNN(rnnc.cells.mingru, 12, 32, backend="reference", **options)
        theirs.load_state_dict(ours.state_dict())
        theirs.double().cuda()
        x, lengths = torch.randn(40, 6, 12, **on), torch.tensor([40, 7, 0, 1, 39, 20])
        for given in (None, lengths):
            exact = x.double().requires_grad_()
            rough = x.clone().requires_grad_()
            wanted, got = theirs(exact, lengths=given)[0], ours(rough, lengths=given)[0]
            wanted.sum().backward()
            got.sum().backward()
            bound = 2e-2 if dtype == "bfloat16" else 1e-5
            for a, b in ((got, wanted), (rough.grad, exact.grad)):
                assert (a.double() - b).norm() < bound * b.norm()

    return checked
