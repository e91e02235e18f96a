"""Inputs that calls draw on a GPU: the same numbers in all ways, and new ones at each replay."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import rnnc
import torch
from rnnc import Gate, Input, State, bernoulli, normal, tanh, uniform

T, B, INPUT, HIDDEN = 13, 5, 16, 64
RESULTS = "h", "c", "last h", "last c", "d wx", "d R", "d b"


@rnnc.cell
def noisy(
    g: Gate,
    h: State,
    *,
    keep: Input = bernoulli(0.3),
    xi: Input = normal(std=0.2),
    mask: Input = uniform(0.5, 1.5, per="sequence"),
):
    """An input of each kind."""
    return keep * h + (1 - keep) * mask * tanh(g + xi)


def module(backend="cuda", **options):
    torch.manual_seed(0)
    rnn = rnnc.RNN(noisy, INPUT, HIDDEN, num_layers=2, backend=backend, precision="ieee", **options)
    return rnn.cuda()


def input_of(*outer):
    torch.manual_seed(1)
    return torch.randn(*outer, INPUT, device="cuda")


@pytest.mark.parametrize("both", [False, True])
def test_kernels_and_the_reference_draw_the_same_from_a_seed(both):
    x, found = input_of(T, B), []
    reset = torch.zeros(T, B, dtype=torch.bool, device="cuda")
    reset[4, 1] = True
    for backend in ("cuda", "reference"):
        rnn = module(backend, bidirectional=both)
        torch.manual_seed(2)
        y = rnn(x, reset=reset)[0]
        found.append([y, *torch.autograd.grad(y.square().sum(), list(rnn.parameters()))])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)


def test_calls_that_come_again_draw_anew_and_a_seed_repeats_them():
    rnn, x = module(), input_of(T, B)
    torch.manual_seed(3)
    first = [rnn(x)[0] for _ in range(5)]
    assert all(not torch.equal(one, other) for one, other in pairwise(first))
    torch.manual_seed(3)
    assert all(torch.equal(rnn(x)[0], y) for y in first)
    generators = [torch.Generator("cuda").manual_seed(4) for _ in range(2)]
    assert torch.equal(*[rnn(x, generator=generator)[0] for generator in generators])
    with pytest.raises(rnnc.TensorError, match="one on cpu"):
        rnn(x, generator=torch.Generator())


@pytest.mark.parametrize(("variant", "dim"), [("block", 64), ("cluster", 40), ("cluster", 256)])
@pytest.mark.parametrize("ragged", [False, True])
def test_what_is_passed_in_place_of_a_draw_has_any_strides(variant, dim, ragged):
    """In each layout against the reference in float64, every gradient by name."""
    torch.manual_seed(5)
    cell, size = rnnc.zoneout(rnnc.cells.lstm, 0.3), (B, T, 2, dim)
    draw = partial(torch.rand, device="cuda", dtype=torch.bfloat16)
    wx, R, b = draw(*size, 4) - 0.5, (draw(4, 2, dim, dim) - 0.5) * dim**-0.5, draw(4, 2, dim)
    seeds = [draw(size), draw(size), draw(B, 2, dim), draw(B, 2, dim)]
    layouts = {
        "without gaps": draw(size),
        "time first": draw(T, B, 2, dim).transpose(0, 1),
        "once per sequence": draw(B, 1, 2, dim),
        "of a larger tensor": draw(B, T, 2, dim + 3)[..., 3:],
        "unit by unit": draw(dim, 2, T, B).permute(3, 2, 1, 0),
        "for all units": draw(T, B).t()[..., None, None],
    }
    more = {"reverse": ragged}
    if ragged:
        more["lengths"] = torch.tensor([T, 0, 1, 7, T - 1], device="cuda")
        more["reset"] = torch.rand(B, T, device="cuda") < 0.2
    for name, keep in layouts.items():
        given, found = {"zoneout_h": keep, "zoneout_c": layouts["time first"]}, []
        for way in ({"variant": variant}, {"backend": "reference"}):
            exact = torch.float64 if "backend" in way else torch.bfloat16
            leaves = [t.detach().to(exact).requires_grad_() for t in (wx, R, b)]
            inputs = {n: t.to(exact) for n, t in given.items()} if "backend" in way else given
            every, last = rnnc.scan(cell, *leaves, inputs=inputs, **way, **more)
            gradients = torch.autograd.grad(
                [*every, *last], leaves, [seed.to(exact) for seed in seeds]
            )
            found.append(dict(zip(RESULTS, (*every, *last, *gradients), strict=True)))
        for each, wanted in found[1].items():
            error = (found[0][each].double() - wanted).norm() / wanted.norm()
            assert error < 0.01, f"{name}, {each}: {error}"


def test_a_captured_call_draws_anew_at_each_replay():
    rnn, x = module(), input_of(T, B)
    graph, found = torch.cuda.CUDAGraph(), []
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                rnn(x)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            y = rnn(x)[0]
    for _ in range(3):
        graph.replay()
        found.append(y.clone())
    assert all(not torch.equal(one, other) for one, other in pairwise(found))
    assert all(value.isfinite().all() for value in found)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_a_compiled_call_draws_anew(mode):
    torch.compiler.reset()
    rnn, x = module(), input_of(T, B)
    compiled = torch.compile(rnn, fullgraph=True, mode=mode)
    found = []
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()  # outputs and gradients are memory of the graph
        rnn.zero_grad()
        y = compiled(x)[0].clone()
        y.sum().backward()
        found.append(y.detach())
    assert all(not torch.equal(one, other) for one, other in pairwise(found))
    assert rnn.weight_hh_l0.grad.isfinite().all()


def test_no_gradient_of_a_draw_takes_memory():
    """The peak of a training step, with the gradients of what is passed and without."""
    rnn, x = module(), input_of(256, 64)
    inputs = {n: torch.rand(2, 256, 64, 1, HIDDEN, device="cuda") for n in ("keep", "xi", "mask")}
    peaks = {}
    for asked in (False, True):
        given = {name: t.detach().requires_grad_(asked) for name, t in inputs.items()}
        for _ in range(2):
            rnn.zero_grad()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            rnn(x, inputs=given)[0].sum().backward()
            peaks[asked] = torch.cuda.max_memory_allocated() - before
    of_one_layer = inputs["keep"][0].nbytes
    assert peaks[True] - peaks[False] > 3 * of_one_layer
