"""Layers that run at the same time on a GPU: the bits of layers one after the other."""

from __future__ import annotations

import threading

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.wavefront import run, schedule

SHAPES = {"block": (4, 32), "cluster": (2, 128)}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """A layer that waits in vain ends the launch soon."""
    monkeypatch.setattr(run, "between_layers", lambda _: 10**10)  # ns


@pytest.fixture
def poisoned():
    """New memory holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def module(cell, kind, layers, order, dtype, **options):
    heads, dim = SHAPES[kind]
    torch.manual_seed(0)
    return rnnc.RNN(
        *(cell, heads * dim, heads * dim),
        heads=heads,
        num_layers=layers,
        variant=kind,
        layers=order,
        device="cuda",
        dtype=dtype,
        **options,
    )


def results(rnn, x, seeds, states=None):
    """Outputs and gradients, by name."""
    x = x.detach().requires_grad_()
    torch.manual_seed(1)  # of dropout
    y, last = rnn(x, states)
    outputs = [y, *last]
    wanted = {"x": x, **dict(rnn.named_parameters())}
    found = torch.autograd.grad(outputs, list(wanted.values()), seeds)
    named = {f"d {name}": g for name, g in zip(wanted, found, strict=True)}
    return named | {"y": y.detach()} | {f"last.{i}": s.detach() for i, s in enumerate(last)}


def inputs(rnn, steps, batch, dtype):
    draw = lambda *shape: torch.randn(shape, device="cuda").to(dtype)  # noqa: E731
    layers, hidden = rnn.num_layers, rnn.hidden_size
    states = [draw(layers, batch, hidden).abs() for _ in rnn.cell.states]
    seeds = [draw(steps, batch, hidden), *map(torch.randn_like, states)]
    return draw(steps, batch, rnn.input_size), seeds, states


def assert_same(found, wanted):
    for name, tensor in wanted.items():
        assert tensor.isfinite().all(), name
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("steps", [256, 300, 1024])
@pytest.mark.parametrize(
    "options", [{}, {"dropout": 0.3}, {"save": "states"}, {"bias": False}], ids=str
)
@pytest.mark.parametrize("name", ["lstm", "gru", "peephole_lstm", "gru_reset_first", "dreamer_gru"])
@pytest.mark.parametrize("kind", SHAPES)
def test_same_bits_as_one_after_the_other(kind, name, options, steps, poisoned):
    cell, dtype = rnnc.cells.get(name), torch.bfloat16
    one, all_ = (
        module(cell, kind, 3, order, dtype, **options) for order in ("sequential", "wavefront")
    )
    x, seeds, states = inputs(one, steps, 5, dtype)
    wanted = results(one, x, seeds, states)
    for _ in range(3):
        assert_same(results(all_, x, seeds, states), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", SHAPES)
def test_other_dtypes(kind, dtype, poisoned):
    try:
        one, all_ = (
            module(rnnc.cells.lstm, kind, 2, order, dtype) for order in ("sequential", "wavefront")
        )
        x, seeds, _ = inputs(one, 256, 16, dtype)
        wanted = results(one, x, seeds)
        assert_same(results(all_, x, seeds), wanted)
    except rnnc.RnncError as error:
        pytest.skip(str(error))


def test_as_exact_as_all_products_at_once():
    rnns = [
        module(rnnc.cells.lstm, "block", 3, order, torch.bfloat16)
        for order in ("auto", "sequential")
    ]
    x, seeds, _ = inputs(rnns[0], 512, 16, torch.bfloat16)
    whole, cut = (results(rnn, x, seeds) for rnn in rnns)
    exact = module(rnnc.cells.lstm, "block", 3, "auto", torch.bfloat16).double()
    exact.backend = "reference"
    exact.load_state_dict({k: v.double() for k, v in rnns[0].state_dict().items()})
    wanted = results(exact, x.double(), [seed.double() for seed in seeds])
    for name, tensor in wanted.items():
        errors = [float((found[name].double() - tensor).norm()) for found in (whole, cut)]
        assert errors[1] <= 1.1 * errors[0], name


def test_no_gradient_wanted():
    one, all_ = (
        module(rnnc.cells.lstm, "block", 4, order, torch.bfloat16)
        for order in ("sequential", "wavefront")
    )
    x, _, _ = inputs(one, 512, 16, torch.bfloat16)
    with torch.inference_mode():
        for _ in range(5):
            assert torch.equal(all_(x)[0], one(x)[0])


def test_more_layers_than_fit_run_in_groups():
    one, all_ = (
        module(rnnc.cells.lstm, "cluster", 10, order, torch.bfloat16)
        for order in ("sequential", "wavefront")
    )
    x, seeds, _ = inputs(one, 256, 32, torch.bfloat16)
    assert_same(results(all_, x, seeds), results(one, x, seeds))


def test_two_threads_with_streams_of_their_own():
    all_ = [module(rnnc.cells.lstm, "block", 3, "wavefront", torch.bfloat16) for _ in range(2)]
    x, seeds, _ = inputs(all_[0], 512, 16, torch.bfloat16)
    wanted = results(module(rnnc.cells.lstm, "block", 3, "sequential", torch.bfloat16), x, seeds)
    torch.cuda.synchronize()
    found = {}

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            found[number] = [results_of(all_[number], x, seeds) for _ in range(10)]
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in (*found[0], *found[1]):
        for name, tensor in each.items():
            assert torch.equal(tensor, wanted[name]), name


def results_of(rnn, x, seeds):
    """As `results`, without a seed: it belongs to all threads."""
    x = x.detach().requires_grad_()
    y, last = rnn(x)
    wanted = {"x": x, **dict(rnn.named_parameters())}
    found = torch.autograd.grad([y, *last], list(wanted.values()), seeds)
    return {"y": y.detach()} | {f"d {n}": g for n, g in zip(wanted, found, strict=True)}


def test_beside_other_work_on_the_device():
    all_ = module(rnnc.cells.lstm, "block", 3, "wavefront", torch.bfloat16)
    x, seeds, _ = inputs(all_, 512, 16, torch.bfloat16)
    wanted = results(all_, x, seeds)
    side, big = torch.cuda.Stream(), torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(side):
            for _ in range(20):
                big = (big @ big).clamp(-1, 1)
        assert_same(results(all_, x, seeds), wanted)
    torch.cuda.synchronize()


def test_a_graph_captures_the_same_bits_one_after_the_other():
    rnn = module(rnnc.cells.lstm, "block", 3, "sequential", torch.bfloat16)
    x, _, _ = inputs(rnn, 256, 16, torch.bfloat16)
    with torch.no_grad():
        wanted = rnn(x)[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = rnn(x)[0]
        graph.replay()
        assert torch.equal(y, wanted)
        rnn.layers = "wavefront"
        assert torch.equal(rnn(x)[0], wanted)
        with (
            pytest.raises(rnnc.RnncError, match="a stream captures"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            rnn(x)


def test_the_schedule_is_a_wavefront():
    rnn = module(rnnc.cells.lstm, "block", 4, "wavefront", torch.bfloat16)
    schedule._found.cache_clear()
    rnn(torch.randn(512, 16, rnn.input_size, device="cuda", dtype=torch.bfloat16))
    assert schedule._found.cache_info().currsize == 1
