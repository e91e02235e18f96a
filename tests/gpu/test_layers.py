"""All layers of a module as one node of autograd: its gradients and its memory on a GPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, State, relu

SIZES = {"block": 32, "cluster": 136, "grid": 256, "alternating": 40, "auto": 64}


@pytest.fixture
def poisoned():
    """New memory holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def results(module, x, states, seeds):
    x = x.detach().requires_grad_()
    states = [s.detach().requires_grad_() for s in states]
    y, last = module(x, states)
    wanted = {"x": x, **dict(module.named_parameters())}
    wanted |= {f"states.{i}": s for i, s in enumerate(states)}
    # Of the reference, some outputs and inputs hang on nothing.
    pairs = [(o, s) for o, s in zip([y, *last], seeds, strict=True) if o.requires_grad]
    gradients = torch.autograd.grad(
        [o for o, _ in pairs],
        list(wanted.values()),
        [s for _, s in pairs],
        materialize_grads=True,
    )
    named = {f"d {name}": g for name, g in zip(wanted, gradients, strict=True)}
    return named | {"y": y.detach()} | {f"last.{i}": s.detach() for i, s in enumerate(last)}


@pytest.mark.parametrize("variant", SIZES)
@pytest.mark.parametrize("name", ["lstm", "gru", "slstm", "indrnn", "peephole_lstm", "sru"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("save", ["gates", "states"])
def test_every_gradient_of_two_layers(variant, name, dtype, save, poisoned):
    check_every_gradient(variant, name, dtype, save, directions=1)


@pytest.mark.parametrize("variant", SIZES)
@pytest.mark.parametrize("name", ["lstm", "gru", "peephole_lstm"])
@pytest.mark.parametrize(
    ("dtype", "save"),
    [(torch.float32, "gates"), (torch.bfloat16, "gates"), (torch.float16, "states")],
    ids=str,
)
def test_every_gradient_of_two_bidirectional_layers(variant, name, dtype, save, poisoned):
    check_every_gradient(variant, name, dtype, save, directions=2)


def check_every_gradient(variant, name, dtype, save, directions):
    cell, dim, heads = rnnc.cells.get(name), SIZES[variant], 1 if variant == "grid" else 2
    torch.manual_seed(0)
    options = {"heads": heads, "num_layers": 2, "device": "cuda", "bidirectional": directions == 2}
    try:
        rnn = rnnc.RNN(cell, 12, heads * dim, variant=variant, save=save, **options).to(dtype)
        rnn(torch.randn(1, 1, 12, device="cuda", dtype=dtype))
    except rnnc.RnncError as error:
        pytest.skip(f"no such plan: {error}")
    exact = rnnc.RNN(cell, 12, heads * dim, backend="reference", **options).double()
    exact.load_state_dict(rnn.state_dict())
    draw = lambda *shape: torch.randn(shape, device="cuda").to(dtype)  # noqa: E731
    x = draw(7, 5, 12)
    states = [draw(2 * directions, 5, heads * dim).abs() for _ in cell.states]
    seeds = [draw(7, 5, directions * heads * dim), *map(torch.randn_like, states)]
    doubles = [[t.double() for t in given] for given in (states, seeds)]
    wanted = results(exact, x.double(), *doubles)
    torchs = results(exact.to(dtype), x, states, seeds)
    found = results(rnn, x, states, seeds)
    assert set(found) == set(wanted)
    for key, right in wanted.items():
        scale = right.norm() + 1e-30
        error, peer = ((of[key].double() - right).norm() / scale for of in (found, torchs))
        assert error <= 2 * peer + 8 * torch.finfo(dtype).eps, (key, error.item(), peer.item())


@rnnc.cell
def never_positive(z: Gate, h: State):
    """Most of its values are -0."""
    return -relu(z)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_last_state_has_the_bits_of_the_last_step(layers):
    rnn = rnnc.RNN(never_positive, 12, 64, num_layers=layers, device="cuda")
    y, (h,) = rnn(torch.randn(6, 4, 12, device="cuda"))
    assert (y[-1] == 0).any()
    assert torch.signbit(y[y == 0]).all()
    assert torch.equal(y[-1].view(torch.int32), h[-1].view(torch.int32))


def test_dropout_s_masks_are_the_same_in_the_backward():
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.gru, 12, 64, num_layers=3, dropout=0.5, device="cuda")
    x = torch.randn(6, 4, 12, device="cuda", requires_grad=True)
    rnn.double()
    x = x.detach().double().requires_grad_()

    def run(x):
        torch.manual_seed(5)
        return rnn(x)[0]

    assert torch.autograd.gradcheck(run, x, fast_mode=True)


@pytest.mark.parametrize("layers", [1, 3])
def test_memory_of_a_training_step(layers):
    """At most (max(G, saved) + S + 1) numbers per unit, row and step, of each layer."""
    steps, batch, hidden = 256, 64, 256
    cell = rnnc.cells.lstm
    rnn = rnnc.RNN(cell, hidden, hidden, num_layers=layers, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=torch.bfloat16)
    seed = torch.randn_like(x)

    def step():
        rnn.zero_grad(set_to_none=True)
        rnn(x)[0].backward(seed)

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    rnn.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    number = steps * batch * hidden * 2
    weights = 2 * sum(p.numel() * p.element_size() for p in rnn.parameters())
    small = 8 * 2**20  # cuBLAS's split sums, last states, sums of biases
    assert peak <= (layers * (4 + 2) + 2) * number + weights + small, peak / number


def test_memory_of_a_large_training_step():
    """LSTM 12 x 64, B 128, T 1024, bfloat16: 1400 MiB over x, with the gradient of the output."""
    torch.cuda.empty_cache()
    rnn = rnnc.RNN(rnnc.cells.lstm, 768, 768, heads=12, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(1024, 128, 768, device="cuda", dtype=torch.bfloat16)
    seed = torch.randn_like(x)

    def step():
        rnn.zero_grad(set_to_none=True)
        torch.autograd.backward([rnn(x)[0]], [seed])

    step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    peak = (torch.cuda.max_memory_allocated() - before + seed.nbytes) / 2**20
    assert peak <= 1400, peak
