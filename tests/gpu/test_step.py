"""A single step on a GPU: outputs and gradients by name, against float64 and a sequence of one."""

from __future__ import annotations

import pytest
import rnnc
import torch

CELLS = ["lstm", "gru", "indrnn", "nas_cell", "slstm"]
# The dtype, batch and heads: what one kernel multiplies, and what cuBLAS does.
CASES = [
    (torch.float64, 3, 1),
    (torch.float64, 40, 3),
    (torch.float32, 1, 1),
    (torch.float32, 12, 3),
    (torch.float32, 33, 1),
    (torch.bfloat16, 5, 1),
    (torch.bfloat16, 50, 3),
    (torch.float16, 2, 3),
    (torch.float16, 37, 1),
]


def module_of(name, dtype, heads=1, hidden=96, size=40, layers=2, **options):
    options = {"heads": heads, "num_layers": layers, "device": "cuda", "dtype": dtype} | options
    return rnnc.RNN(rnnc.cells.get(name), size, hidden, **options)


def results(rnn, x, states, seeds, step, variant="auto"):
    """By a step, or by a sequence of one; a variant runs it as a longer one."""
    rnn.variant = variant
    dtype = next(rnn.parameters()).dtype
    x = x.to(dtype).requires_grad_()
    states = [s.to(dtype).requires_grad_() for s in states]
    y, last = rnn.step(x, states) if step else rnn(x.unsqueeze(0), states)
    outputs = {"y": y if step else y[0], **{f"last {i}": s for i, s in enumerate(last)}}
    leaves = {"x": x, **{f"state {i}": s for i, s in enumerate(states)}}
    leaves |= dict(rnn.named_parameters())
    seeds = [seed.to(dtype) for seed in seeds]
    gradients = torch.autograd.grad(list(outputs.values()), list(leaves.values()), seeds)
    found = outputs | {f"d_{n}": g for n, g in zip(leaves, gradients, strict=True)}
    return {name: value.detach().double() for name, value in found.items()}


def drawn(rnn, batch, dtype):
    """Inputs and seeds whose values the dtype has."""
    shapes = [(batch, rnn.input_size), (batch, rnn.hidden_size)]
    state = (rnn.num_layers, batch, rnn.hidden_size)
    shapes += [state] * (2 * len(rnn.cell.states))
    x, seed, *rest = [torch.randn(shape, device="cuda").to(dtype).double() for shape in shapes]
    count = len(rnn.cell.states)
    return x, [s.abs() + 0.5 for s in rest[:count]], [seed, *rest[count:]]


def error(found, wanted):
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-12)).item()


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize(("dtype", "batch", "heads"), CASES)
@pytest.mark.parametrize("name", CELLS)
def test_values(name, dtype, batch, heads, precision):
    if precision == "tf32" and dtype != torch.float32:
        pytest.skip("float32 alone has the choice")
    exact = module_of(name, torch.float64, heads)
    rnn = module_of(name, dtype, heads, precision=precision)
    rnn.load_state_dict(exact.state_dict())
    exact.load_state_dict(rnn.state_dict())
    given = drawn(rnn, batch, dtype)
    wanted = results(exact, *given, step=False)
    found = results(rnn, *given, step=True)
    sequence = results(rnn, *given, step=False, variant="alternating")
    eps = 2**-10 if precision == "tf32" else torch.finfo(dtype).eps
    for key, value in wanted.items():
        allowed = 2 * error(sequence[key], value) + 8 * eps
        assert error(found[key], value) <= allowed, key


@pytest.mark.parametrize("batch", [3, 40])
def test_odd_sizes_and_tensors_with_gaps(batch):
    exact = module_of("lstm", torch.float64, hidden=33, size=7, layers=1)
    rnn = module_of("lstm", torch.float32, hidden=33, size=7, layers=1, precision="ieee")
    rnn.load_state_dict(exact.state_dict())
    rnn.weight_ih_l0.data = rnn.weight_ih_l0.data.mT.contiguous().mT
    x, states, seeds = drawn(rnn, batch, torch.float32)
    wanted = results(exact, x, states, seeds, step=False)
    x = x.repeat(1, 2)[:, :7]
    states = [s.mT.contiguous().mT for s in states]
    found = results(rnn, x, states, seeds, step=True)
    for key, value in wanted.items():
        assert error(found[key], value) <= 1e-5, key


@pytest.mark.parametrize("batch", [1, 8, 20, 64])
def test_the_same_bits_each_time_and_row_by_row(batch):
    rnn = module_of("gru", torch.float32, precision="ieee")
    x, states, _ = drawn(rnn, batch, torch.float32)
    x, states = x.float(), [s.float() for s in states]
    with torch.no_grad():
        first, again = rnn.step(x, states)[0], rnn.step(x, states)[0]
        assert torch.equal(first, again)
        if batch <= 32:
            row = rnn.step(x[:1], [s[:, :1] for s in states])[0]
            assert torch.equal(row, first[:1])


# Each tile of the forward and of the backward; lines that no copy of 16 bytes divides.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("batch", "hidden", "size"),
    [
        (16, 256, 64),
        (100, 512, 40),
        (128, 768, 64),
        (300, 512, 512),
        (512, 1024, 72),
        (77, 130, 33),
    ],
)
def test_tiles(batch, hidden, size, dtype):
    exact = module_of("lstm", torch.float64, hidden=hidden, size=size, layers=1)
    rnn = module_of("lstm", dtype, hidden=hidden, size=size, layers=1, precision="tf32")
    rnn.load_state_dict(exact.state_dict())
    exact.load_state_dict(rnn.state_dict())
    given = drawn(rnn, batch, dtype)
    filled = torch.full((1 << 24,), float("nan"), device="cuda")  # what results may lie in
    wanted = results(exact, *given, step=False)
    del filled
    found, again = (results(rnn, *given, step=True) for _ in range(2))
    eps = 2**-10 if dtype == torch.float32 else torch.finfo(dtype).eps
    for key, value in wanted.items():
        assert error(found[key], value) <= 4 * eps, key
        assert torch.equal(found[key], again[key]), key


@pytest.mark.parametrize("batch", [1, 20, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_sequence_of_one_step_is_a_step(batch, dtype):
    rnn = module_of("gru", dtype)
    x, states, seeds = drawn(rnn, batch, dtype)
    found = results(rnn, x, states, seeds, step=True)
    for key, value in results(rnn, x, states, seeds, step=False).items():
        assert torch.equal(found[key], value), key


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 16, 128])
@pytest.mark.parametrize("name", ["gru_reset_first", "joint_norm_lstm", "lem"])
def test_a_loop_of_steps_by_the_kernels_of_sequences(name, batch, dtype):
    """With states of the step before: launches become a graph, unless a plan has its own graphs."""
    rnn = module_of(name, dtype, hidden=768, layers=1)
    x = torch.randn(16, batch, 40, device="cuda", dtype=dtype)
    states, outputs = None, []
    with torch.no_grad():
        wanted, _ = rnn(x)
        for each in x:
            y, states = rnn.step(each, states)
            outputs.append(y)
    bound = 1e-3 if dtype == torch.float32 else 3e-2
    assert error(torch.stack(outputs).double(), wanted.double()) < bound


def test_a_step_inside_a_callers_graph():
    rnn = module_of("lstm", torch.bfloat16)
    for batch in (4, 40):
        x = torch.randn(batch, 40, device="cuda", dtype=torch.bfloat16)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad():
            wanted = rnn.step(x)[0]
            with torch.cuda.graph(graph):
                found, _ = rnn.step(x)
        graph.replay()
        assert torch.equal(found, wanted)


def test_a_step_on_the_device_of_its_tensors():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    rnn, x = module_of("lstm", torch.float32), torch.randn(50, 40, device="cuda")
    wanted = rnn.step(x)[0].cpu()
    found, _ = rnn.to("cuda:1").step(x.to("cuda:1"))
    assert torch.equal(found.cpu(), wanted)
    found.sum().backward()
