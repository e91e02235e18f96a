"""The values of a single step on a GPU, whose kernels run as C++ on the CPU."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.step import gradient_tile, tile
from rnnc.runtime.targets.registry import TARGETS
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode


def results(rnn, x, states, seeds):
    y, last = rnn.step(x, states)
    outputs = {"y": y, **{f"last {i}": s for i, s in enumerate(last)}}
    leaves = {"x": x, **{f"state {i}": s for i, s in enumerate(states or [])}}
    leaves |= dict(rnn.named_parameters())
    gradients = torch.autograd.grad(list(outputs.values()), list(leaves.values()), seeds)
    return outputs | {f"d_{n}": g for n, g in zip(leaves, gradients, strict=True)}


# A batch that one kernel multiplies, and one that the library does; sizes that loads divide or not.
@pytest.mark.parametrize(
    ("name", "batch", "heads", "hidden", "given"),
    [
        ("lstm", 3, 2, 12, True),
        pytest.param("nas_cell", 3, 2, 12, True, marks=pytest.mark.slow),
        *((name, 33, 2, 12, True) for name in ("gru", "indrnn", "nas_cell")),
        ("lstm", 33, 1, 12, True),
        ("gru", 33, 1, 7, False),
        ("gru", 11, 1, 7, False),
    ],
)
def test_outputs_and_gradients(name, batch, heads, hidden, given, emulated_gpu):
    cell, layers = rnnc.cells.get(name), 2
    options = {"heads": heads, "num_layers": layers, "dtype": torch.float64}
    rnn = rnnc.RNN(cell, 4, hidden, backend="simulated", **options)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    wanted = rnnc.RNN(cell, 4, hidden, backend="reference", **options)
    wanted.load_state_dict(rnn.state_dict())
    x = torch.randn(batch, 4, dtype=torch.float64, requires_grad=True)
    states = [
        (0.5 + torch.rand(layers, batch, hidden, dtype=torch.float64)).requires_grad_()
        for _ in cell.states
        if given
    ] or None
    sizes = [(batch, hidden), *[(layers, batch, hidden)] * len(cell.states)]
    seeds = [torch.randn(*size, dtype=torch.float64) for size in sizes]
    found = results(rnn, x, states, seeds)
    for key, value in results(wanted, x, states, seeds).items():
        torch.testing.assert_close(found[key], value, msg=lambda text, key=key: f"{key}: {text}")


# One block of rows and several; units, K and rows that no tile divides; lines that no copy of 16
# bytes divides; gates without input, two sources, diagonal weights and no matrices.
@pytest.mark.parametrize(
    ("name", "batch", "heads", "hidden", "size", "dtype", "much"),
    [
        ("lstm", 9, 2, 24, 8, torch.float32, False),
        pytest.param("lstm", 33, 1, 40, 72, torch.bfloat16, False, marks=pytest.mark.slow),
        ("gru", 70, 2, 18, 7, torch.float16, False),
        pytest.param("gru", 70, 1, 24, 8, torch.bfloat16, True, marks=pytest.mark.slow),
        ("scrn", 17, 1, 20, 300, torch.float32, True),
        pytest.param("nas_cell", 40, 1, 17, 5, torch.float32, False, marks=pytest.mark.slow),
        ("fastgrnn", 12, 1, 9, 16, torch.bfloat16, False),
        ("indrnn", 20, 1, 12, 9, torch.float32, False),
    ],
)
def test_products_by_matrix_instructions(
    name, batch, heads, hidden, size, dtype, much, emulated_gpu, monkeypatch
):
    if much:  # the tiles of much work
        monkeypatch.setattr(tile, "_BLOCKS_AT_ONCE", 0)
        monkeypatch.setattr(gradient_tile, "_MUCH_WORK", 0)
    monkeypatch.setattr(TARGETS["simulated"], "rounds", lambda *_: dtype == torch.float32)
    cell, options = rnnc.cells.get(name), {"heads": heads, "num_layers": 2}
    rnn = rnnc.RNN(cell, size, hidden, backend="simulated", dtype=dtype, **options)
    for parameter in rnn.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    exact = rnnc.RNN(cell, size, hidden, backend="reference", dtype=torch.float64, **options)
    exact.load_state_dict(rnn.state_dict())
    x = torch.randn(batch, size, dtype=dtype)
    states = [torch.rand(2, batch, hidden).to(dtype) for _ in cell.states]
    seeds = [torch.randn(batch, hidden), *[torch.randn(2, batch, hidden) for _ in states]]
    found, wanted = (
        results(
            module,
            x.to(kind).requires_grad_(),
            [s.to(kind).requires_grad_() for s in states],
            [seed.to(dtype).to(kind) for seed in seeds],
        )
        for module, kind in ((rnn, dtype), (exact, torch.float64))
    )
    assert all(plan.tile or plan.gradient_tile for plan in emulated_gpu)
    allowed = 4 * torch.finfo(dtype).eps
    for key, value in wanted.items():
        error = (found[key].double() - value).abs().max()
        assert error <= allowed * (1 + value.abs().max()), key


def test_a_sequence_of_one_step_is_a_step(emulated_gpu, simulated_gpu, monkeypatch):
    monkeypatch.setattr(TARGETS["simulated"], "rounds", lambda *_: True)
    options = {"heads": 2, "num_layers": 2, "backend": "simulated"}
    rnn = rnnc.RNN(rnnc.cells.lstm, 8, 24, **options, batch_first=True)
    x, states = torch.randn(9, 8), [torch.rand(2, 9, 24) for _ in range(2)]
    for given in (states, None):
        with torch.no_grad():
            y, last = rnn.step(x, given)
            found, found_last = rnn(x[:, None], given)
        assert torch.equal(found[:, 0], y)
        assert all(map(torch.equal, found_last, last))
    gradients = []
    for step in (True, False):
        leaf = x.clone().requires_grad_()
        y, _ = rnn.step(leaf, states) if step else rnn(leaf[:, None], states)
        gradients.append(torch.autograd.grad(y.square().sum(), [leaf, *rnn.parameters()]))
    assert all(map(torch.equal, *gradients))
    assert not simulated_gpu  # no kernel of sequences
    rnn.variant = "block"
    with torch.no_grad():
        rnn(x[:, None], states)
    assert simulated_gpu


def test_no_biases_and_gradients_of_some_weights_in_float32(emulated_gpu):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, bias=False, dtype=torch.float32, backend="simulated")
    rnn.weight_hh_l0.requires_grad_(False)
    wanted = rnnc.RNN(rnnc.cells.lstm, 4, 6, bias=False, backend="reference")
    wanted.load_state_dict(rnn.state_dict())
    x = torch.randn(34, 4)
    found, other = (
        torch.autograd.grad(module.step(x)[1][1].sum(), module.weight_ih_l0)[0]
        for module in (rnn, wanted)
    )
    torch.testing.assert_close(found, other)


def test_what_changes_between_calls_is_seen(emulated_gpu):
    """A step whose like passed all checks before skips them."""
    cell = rnnc.cells.lstm
    rnn = rnnc.RNN(cell, 4, 6, dtype=torch.float32, backend="simulated")
    plain = rnnc.RNN(cell, 4, 6, backend="reference")
    x = torch.randn(3, 4)
    states = [torch.randn(1, 3, 6) for _ in range(2)]

    gradients = []

    def compare(x=x, states=states):
        for _ in range(2):
            plain.to(rnn.weight_hh_l0.dtype).load_state_dict(rnn.state_dict())
            found, last = rnn.step(x, states)
            wanted, wanted_last = plain.step(x, states)
            torch.testing.assert_close(found, wanted)
            torch.testing.assert_close(last, wanted_last)
            assert found.requires_grad == wanted.requires_grad
            if found.requires_grad:
                names = [name for name, p in rnn.named_parameters() if p.requires_grad]
                for y, module in ((found, rnn), (wanted, plain)):
                    leaves = [module.get_parameter(name) for name in names]
                    gradients.append(torch.autograd.grad(y.sum(), leaves))
                torch.testing.assert_close(*gradients)
                gradients.clear()

    compare()
    rnn.weight_ih_l0.data = torch.randn_like(rnn.weight_ih_l0)
    compare()
    rnn.weight_hh_l0 = torch.nn.Parameter(torch.randn(1, 4, 6, 6).movedim(0, 1).contiguous()[:, 0])
    with pytest.raises(rnnc.TensorError, match="weight_hh_l0"):
        rnn.step(x, states)
    rnn.weight_hh_l0 = torch.nn.Parameter(torch.randn(24, 6).mT.contiguous().mT)
    compare()
    rnn.bias_l0.requires_grad_(False)
    compare()
    compare(x=torch.randn(3, 8)[:, ::2])
    compare(x=torch.randn(14)[1:13].view(3, 4))
    compare(states=[states[0], states[0]])
    compare(states=None)
    with torch.no_grad():
        compare()
    with torch.inference_mode():
        compare()
    with pytest.raises(rnnc.TensorError, match="states"):
        rnn.step(x, states[:1])
    with pytest.raises(rnnc.TensorError, match="float64"):
        rnn.step(x.double(), states)
    rnn.double()
    with pytest.raises(rnnc.TensorError, match="float32"):
        rnn.step(x, states)
    compare(x.double(), [s.double() for s in states])
    rnn.float().cell = rnnc.cells.peephole_lstm
    with pytest.raises(rnnc.TensorError):
        rnn.step(x, states[:1])
    rnn.cell = cell
    other = copy.deepcopy(rnn)
    with torch.no_grad():
        other.weight_hh_l0.zero_()
    compare()
    assert not torch.equal(other.step(x, states)[0], rnn.step(x, states)[0])


@pytest.mark.parametrize("heads", [1, 2])
def test_products_of_states_beside_the_others_in_a_graph(heads, emulated_gpu, monkeypatch):
    rnn = rnnc.RNN(rnnc.cells.gru, 4, 6, heads=heads, num_layers=3, backend="simulated")
    x, states = torch.randn(34, 4), [torch.randn(3, 34, 6)]
    order = []

    class Stream:
        cuda_stream = 7

        def __init__(self, device=None):
            self.name = "side" if device else "main"

        def wait_stream(self, other):
            order.append(f"{self.name} waits for {other.name}")

        def wait_event(self, event):
            assert event.recorded
            order.append(f"{self.name} waits for a product")

    class Event:
        def record(self, stream):
            self.recorded = stream.name == "side"

    with torch.no_grad():
        wanted, wanted_last = rnn.step(x, states)
        main = Stream()
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: main)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        found, last = rnn.step(x, states)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    torch.testing.assert_close(last, wanted_last, rtol=0, atol=0)
    waits = ["main waits for a product"] * 3
    assert order == ["side waits for main", *waits, "main waits for side"]


def test_modes_see_a_step_that_is_known(emulated_gpu):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, backend="simulated")
    x, states = torch.randn(3, 4), [torch.randn(1, 3, 6) for _ in range(2)]
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    for _ in range(2):
        rnn.step(x, states)
    assert rnn._known_calls.find_call("step", rnn, x, states) is not None
    with Mode():
        assert rnn._known_calls.find_call("step", rnn, x, states) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert rnn._known_calls.find_call("step", rnn, x, states) is None
    with torch.device("cpu"):
        assert rnn._known_calls.find_call("step", rnn, x, states) is None
    with forward_ad.dual_level():
        assert rnn._known_calls.find_call("step", rnn, x, states) is None
    wrapped = []

    def noted(x):
        wrapped.append(rnn._known_calls.find_call("step", rnn, x, states))
        return x

    torch.func.vmap(noted)(x[None])
    assert wrapped == [None]
    rnn.precision = "ieee"
    assert rnn._known_calls.find_call("step", rnn, x, states) is None
