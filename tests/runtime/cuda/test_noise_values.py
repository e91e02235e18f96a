"""Noisy cells in each kind of plan, whose kernels run as C++ on the CPU: against a loop of torch.

The call draws; the loop, in float64, gets the same numbers.
"""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State, bernoulli, gate, normal, sigmoid, tanh, uniform
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.tune import TrialCall
from rnnc.runtime.run import draws
from rnnc.runtime.store.tuned import Asked

from ...linear_scans import small_tiles

NAN = float("nan")
SINGLE, HALF = torch.float32, torch.bfloat16
slow = pytest.mark.slow  # several seconds each, most of it in the C++ compiler


@rnnc.cell
def dense(
    z: Gate,
    g: Gate,
    h: State,
    c: State,
    *,
    keep: Input = bernoulli(0.3),
    xi: Input = normal(0.1, 0.5),
    mask: Input = uniform(0.5, 1.5, per="sequence"),
):
    """The matrices multiply what was kept at random."""
    c = keep * c + (1 - keep) * mask * tanh(g + xi)
    return sigmoid(z) * c + keep * h, c


@rnnc.cell
def own(
    h: State,
    c: State,
    *,
    z: Gate = gate(recurrent=False),
    g: Gate = gate(recurrent=False),
    keep: Input = bernoulli(0.3),
    xi: Input = normal(0.1, 0.5),
    mask: Input = uniform(0.5, 1.5, per="sequence"),
):
    """Units read their own past alone, and are affine in it."""
    c = keep * c + (1 - keep) * mask * tanh(g + xi)
    return sigmoid(z) * c + keep * xi, c


def loop(wx, R, b, states, drawn, lengths, reset, reverse):
    """Both cells, row by row: the states at all steps, and the last ones."""
    batch, steps, heads, dim, _ = wx.shape
    drawn = {name: t.expand(batch, steps, heads, dim) for name, t in drawn.items()}
    every, last = [], []
    for row in range(batch):
        h, c = (s[row] for s in states)
        found, order = [[h * 0, c * 0]] * steps, range(int(lengths[row]))
        for t in reversed(order) if reverse else order:
            boundary = t + 1 if reverse else t
            if boundary < lengths[row] and reset[row, boundary]:
                h, c = torch.zeros_like(h), torch.zeros_like(c)
            z, g = (wx[row, t, ..., i] + b[i] for i in range(2))
            if R is not None:
                z, g = (x + torch.einsum("nij,nj->ni", R[i], h) for i, x in enumerate((z, g)))
            keep, xi, mask = (drawn[name][row, t] for name in ("keep", "xi", "mask"))
            c = keep * c + (1 - keep) * mask * torch.tanh(g + xi)
            h = torch.sigmoid(z) * c + keep * (xi if R is None else h)
            found[t] = [h, c]
        every.append(torch.stack([torch.stack(each) for each in found]))
        last.append(torch.stack([h, c]))
    return [*torch.stack(every).unbind(2), *torch.stack(last).unbind(1)]


@pytest.fixture
def check(inputs_for, poisoned, monkeypatch):
    """A call of a kind of plan that draws, against the loop of what it drew."""

    def checked(cell, sizes, dtype, masked, reverse, **choice):
        batch, steps, heads, dim = sizes
        torch.manual_seed(0)
        inputs = inputs_for(cell, *sizes, dtype)
        lengths, reset = torch.full((batch,), steps), torch.zeros(batch, steps, dtype=torch.bool)
        if masked:
            lengths = torch.randint(1, steps + 1, (batch,))
            lengths[:3] = torch.tensor([0, 1, steps])
            reset = torch.rand(batch, steps) < 0.3
        pad = torch.arange(steps) >= lengths[:, None]
        wx = inputs.wx.detach().masked_fill(pad[..., None, None, None], NAN).requires_grad_()
        seeds = [torch.randn(batch, steps, heads, dim).to(dtype) for _ in range(2)]
        seeds += [torch.randn(batch, heads, dim).to(dtype) for _ in range(2)]

        leaves = {"wx": wx, "R": inputs.R, "b": inputs.b}
        leaves |= {f"states {i}": s for i, s in enumerate(inputs.states)}
        leaves = {name: leaf for name, leaf in leaves.items() if leaf is not None}
        noted, draw = {}, draws.with_draws_of_scan

        def noting(*call):
            noted.update(draw(*call))
            return noted

        monkeypatch.setattr(draws, "with_draws_of_scan", noting)
        masks = {"lengths": lengths, "reset": reset} if masked else {}
        over_time, last = rnnc.scan(
            *(cell, wx, inputs.R, inputs.b, inputs.states),
            **masks,
            reverse=reverse,
            backend="simulated",
            precision="ieee",
            **choice,
        )
        results = [*over_time, *last]
        gradients = torch.autograd.grad(results, list(leaves.values()), seeds)

        exact = {n: t.detach().double().requires_grad_() for n, t in leaves.items()}
        states = [exact["states 0"], exact["states 1"]]
        numbers = {name: t.double() for name, t in noted.items()}
        given = exact["wx"], exact.get("R"), exact["b"], states, numbers, lengths, reset, reverse
        wanted = loop(*given)
        d_wanted = torch.autograd.grad(
            *(wanted, list(exact.values()), [s.double() for s in seeds]), materialize_grads=True
        )

        names = ["h", "c", "last h", "last c", *(f"d {name}" for name in leaves)]
        bound = 3e-5 if dtype == SINGLE else 4e-2
        for name, got, true in zip(
            names, [*results, *gradients], [*wanted, *d_wanted], strict=True
        ):
            assert not got.isnan().any(), name
            error = (got.double() - true).norm() / max(true.norm(), 1e-3)
            assert error < bound, f"{name}: {error}"

    return checked


OTHERS = [
    ("block", dense, (11, 7, 1, 24), SINGLE, True),
    ("cluster", dense, (19, 6, 1, 72), SINGLE, False),
    ("grid", dense, (19, 5, 1, 72), HALF, True),
    ("walk", own, (11, 21, 1, 5), SINGLE, False),
    ("walk", own, (3, 19, 2, 32), HALF, True),
]
CASES = [
    ("grid", dense, (19, 5, 1, 72), SINGLE, False),
    *(pytest.param(*case, marks=slow) for case in OTHERS),
]


@pytest.mark.parametrize("masked", [pytest.param(False, marks=slow), True])
@pytest.mark.parametrize(("kind", "cell", "sizes", "dtype", "reverse"), CASES)
def test_kernels_of_all_steps(kind, cell, sizes, dtype, masked, reverse, check, emulated_blocks):
    check(cell, sizes, dtype, masked, reverse, variant=kind)
    assert {plan.kind for plan in emulated_blocks} == {kind}


@pytest.mark.parametrize("parts", [0, pytest.param(1, marks=slow), pytest.param(2, marks=slow)])
@pytest.mark.parametrize("masked", [pytest.param(False, marks=slow), True])
def test_scans(masked, parts, check, emulated_blocks, monkeypatch):
    small_tiles(monkeypatch, parts)
    check(own, (11, 21, 1, 5), SINGLE, masked, parts == 1, variant="scan")
    assert {plan.kind for plan in emulated_blocks} == {"scan"}


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("masked", [pytest.param(False, marks=slow), True])
def test_alternating_plans(masked, save, check, emulated_alternating):
    check(dense, (5, 7, 2, 8), SINGLE, masked, save == "states", variant="alternating", save=save)
    assert {plan.kind for plan in emulated_alternating} == {"alternating"}


def test_a_trial_of_plans_touches_no_generator_of_torch(emulated_blocks):
    """What `rnnc tune` runs; its numbers are those of a generator of its own."""
    limits = limits_of("H200")
    asked = Asked(dense, Shape(1, 24, batch=11, steps=7, dtype="float32"), limits)
    plan, before = plan_for(dense, asked.shape, limits, "block"), torch.get_rng_state()
    trial = TrialCall(asked, torch.device("cpu"), 7)
    done = trial.forward(plan.forward)
    trial.backward(plan.backward, done)
    assert {each.direction for each in emulated_blocks} == {"forward", "backward"}
    assert done.last[0].std() > 0
    assert torch.equal(torch.get_rng_state(), before)
