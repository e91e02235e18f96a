"""Inputs that calls draw: against loops that get the same numbers, and which call draws what."""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product

import pytest
import rnnc
import torch
from rnnc import Constant, Gate, Input, State, bernoulli, constant, normal, sigmoid, tanh, uniform
from rnnc.runtime.call.tensors import inputs_at
from rnnc.runtime.grad.layers import backward as backward_module
from rnnc.runtime.module import given as given_module
from rnnc.runtime.run import draws as draws_module
from rnnc.runtime.run.draws import check_drawing
from rnnc.runtime.scan import packed as packed_module
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

T, B, INPUT, HIDDEN = 6, 3, 4, 5
LENGTHS = torch.tensor([T, 4, 0])


@rnnc.cell
def noisy(
    g: Gate,
    h: State,
    *,
    keep: Input = bernoulli("p"),
    xi: Input = normal(0.1, 0.5),
    mask: Input = uniform(0.5, 1.5, per="sequence"),
    p: Constant = constant(0.3),
):
    """An input of each kind."""
    return keep * h + (1 - keep) * mask * tanh(g + xi)


@rnnc.cell
def noisy_lstm(
    f: Gate, z: Gate, h: State, c: State, *, keep: Input = bernoulli(0.3), xi: Input = normal()
):
    """Reads its output through matrices alone."""
    c = sigmoid(f) * c + tanh(z + xi)
    return keep * tanh(c), c


NAMES = ["keep", "xi", "mask"]


@pytest.fixture
def draws(monkeypatch):
    """What the last call drew, by name, as `inputs=` takes it."""
    last = {}

    def noting(module, name):
        run = getattr(module, name)

        def noted(*arguments):
            found = run(*arguments)
            last.clear()
            last.update(found or {})
            return found

        monkeypatch.setattr(module, name, noted)

    noting(given_module, "draws_of_module")
    noting(draws_module, "with_draws_of_scan")
    noting(packed_module, "with_draws_of_scan")
    return last


def module(cell=noisy, **options):
    torch.manual_seed(0)
    return rnnc.RNN(cell, INPUT, HIDDEN, **{"dtype": torch.float64, **options})


def input_of(*outer):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*outer, INPUT, dtype=torch.float64, generator=generator)


def loop(rnn, x, inputs, lengths, reset):
    """The module by a loop of torch over layers, directions, rows and steps."""
    parts = 2 if rnn.bidirectional else 1
    steps, batch, _ = x.shape
    for layer in range(rnn.num_layers):
        outputs = []
        for direction in range(parts):
            ending = f"_l{layer}" + "_reverse" * direction
            W, R, b = (
                rnn.get_parameter(name + ending) for name in ("weight_ih", "weight_hh", "bias")
            )
            keep, xi, mask = (inputs[name][layer * parts + direction][:, :, 0] for name in NAMES)
            mask = mask.expand(steps, batch, HIDDEN)
            y = [[x.new_zeros(HIDDEN) for _ in range(batch)] for _ in range(steps)]
            for row in range(batch):
                h, order = x.new_zeros(HIDDEN), range(int(lengths[row]))
                for t in reversed(order) if direction else order:
                    boundary = t + 1 if direction else t
                    if boundary < lengths[row] and reset[boundary, row]:
                        h = x.new_zeros(HIDDEN)
                    new = mask[t, row] * torch.tanh(W @ x[t, row] + R @ h + b + xi[t, row])
                    h = keep[t, row] * h + (1 - keep[t, row]) * new
                    y[t][row] = h
            outputs.append(torch.stack([torch.stack(each) for each in y]))
        x = torch.cat(outputs, 2)
    return x


def gradients(rnn, y, leaves):
    """The gradient of each parameter and leaf, by name."""
    named = {**dict(rnn.named_parameters()), **leaves}
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    found = torch.autograd.grad((weights * y.square()).sum(), list(named.values()))
    return dict(zip(named, found, strict=True))


def assert_same(found, wanted):
    assert list(found) == list(wanted)
    for name in wanted:
        torch.testing.assert_close(
            found[name], wanted[name], msg=lambda m, n=name: f"{n} {m}", rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize(
    ("both", "batch_first", "ragged"),
    [(False, False, False), (True, True, False), (True, False, True)],
)
def test_a_module_runs_a_loop_of_what_it_draws(both, batch_first, ragged, draws):
    rnn = module(num_layers=2, bidirectional=both, batch_first=batch_first)
    x = input_of(T, B)
    reset = torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.4
    lengths = LENGTHS if ragged else torch.full((B,), T)
    more = {"lengths": LENGTHS, "reset": reset} if ragged else {}
    reset = reset if ragged else torch.zeros(T, B, dtype=torch.bool)

    x = x.transpose(0, 1) if batch_first else x
    y = rnn(x, **more)[0]
    inputs = {n: (t.transpose(1, 2) if batch_first else t).clone() for n, t in draws.items()}
    in_time = x.transpose(0, 1) if batch_first else x
    wanted = loop(rnn, in_time, inputs, lengths, reset)
    y = y.transpose(0, 1) if batch_first else y
    torch.testing.assert_close(y, wanted)
    assert_same(gradients(rnn, y, {}), gradients(rnn, wanted, {}))
    # The same numbers by `inputs`, which then get gradients too.
    leaves = {n: t.clone().requires_grad_() for n, t in inputs.items()}
    passed = {n: t.transpose(1, 2) if batch_first else t for n, t in leaves.items()}
    y = rnn(x, **more, inputs=passed)[0]
    y = y.transpose(0, 1) if batch_first else y
    wanted = loop(rnn, in_time, leaves, lengths, reset)
    assert_same(gradients(rnn, y, leaves), gradients(rnn, wanted, leaves))


def test_a_backward_that_reads_another_draw_is_noticed(draws, monkeypatch):
    """A planted fault: the kernels of the backward get other numbers than those of the forward."""
    rnn, x = module(num_layers=2), input_of(T, B)
    y, every = rnn(x)[0], torch.full((B,), T)
    wanted = gradients(rnn, loop(rnn, x, dict(draws), every, torch.zeros(T, B).bool()), {})
    monkeypatch.setattr(
        backward_module,
        "inputs_at",
        lambda *call: tuple(torch.rand_like(t) for t in inputs_at(*call)),
    )
    with pytest.raises(AssertionError, match="weight_ih_l0"):
        assert_same(gradients(rnn, y, {}), wanted)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_and_its_reference_draw_the_same(reverse, draws):
    wx, R = input_of(B, T, 1, HIDDEN)[..., :1], torch.randn(1, 1, HIDDEN, HIDDEN).double()
    reset = torch.rand(B, T, generator=torch.Generator().manual_seed(4)) < 0.4
    found = []
    for backend in ("cpu", "reference"):
        torch.manual_seed(5)
        (h,), _ = rnnc.scan(noisy, wx, R, reverse=reverse, reset=reset, backend=backend)
        inputs = dict(draws)
        (again,), _ = rnnc.scan(noisy, wx, R, reverse=reverse, reset=reset, inputs=inputs)
        torch.testing.assert_close(h, again)
        found.append({"h": h, **inputs})
    assert_same(*found)
    assert found[0]["keep"].shape == (B, T, 1, HIDDEN)


def test_a_module_and_its_reference_draw_the_same():
    found = []
    for backend in ("cpu", "reference"):
        rnn = module(num_layers=2, bidirectional=True, backend=backend)
        torch.manual_seed(5)
        y = rnn(input_of(T, B), lengths=LENGTHS)[0]
        found.append({"y": y, **gradients(rnn, y, {})})
    assert_same(*found)


def test_what_is_drawn_once_per_sequence_is_drawn_anew_at_each_reset(draws):
    reset = torch.zeros(T, B, dtype=torch.bool)
    reset[2, 0] = reset[5, 0] = reset[3, 1] = True
    rnn = module(bidirectional=True)
    rnn(input_of(T, B), reset=reset)
    for part in draws["mask"][:, :, :, 0]:
        for row, begins in enumerate(([0, 2, 5], [0, 3], [0])):
            each = part[:, row].tensor_split(begins[1:])
            assert all(torch.equal(values, values[:1].expand_as(values)) for values in each)
            assert len({values[0, 0].item() for values in each}) == len(begins)
    assert not torch.equal(draws["mask"][0], draws["mask"][1])
    rnn(input_of(T, B))
    assert draws["mask"].shape == (2, 1, B, 1, HIDDEN)


def test_packed_sequences_draw_one_value_each(draws):
    total = int(LENGTHS.sum())
    wx, R = input_of(total, 1, HIDDEN)[..., :1], torch.randn(1, 1, HIDDEN, HIDDEN).double()
    starts = torch.nn.functional.pad(LENGTHS.cumsum(0), (1, 0)).int()
    (packed,), last = rnnc.scan_packed(noisy, wx, R, cu_seqlens=starts)
    assert {n: t.shape[:2] for n, t in draws.items()} == {
        "keep": (B, T),
        "xi": (B, T),
        "mask": (B, 1),
    }
    runs = torch.arange(T) < LENGTHS[:, None]
    padded = wx.new_zeros(B, T, 1, HIDDEN, 1)
    padded[runs] = wx
    (h,), wanted = rnnc.scan(noisy, padded, R, lengths=LENGTHS, inputs=dict(draws))
    torch.testing.assert_close(packed, h[runs])
    torch.testing.assert_close(last, wanted)
    (mean,), _ = rnnc.scan_packed(noisy, wx, R, cu_seqlens=starts, sample=False)
    (wanted,), _ = rnnc.scan_packed(noisy.mean(), wx, R, cu_seqlens=starts)
    assert torch.equal(mean, wanted)


def test_without_samples_the_mean_runs_in_every_way():
    rnn, mean = module(num_layers=2), module(noisy.mean(), num_layers=2)
    x = input_of(T, B)
    for sample, training in ((False, True), (None, False), (False, False)):
        rnn.train(training)
        for _ in range(3):  # also where the call is known, between calls that draw
            y, last, every = rnn(x, sample=sample, all_states=True)
            wanted, others, all_ = mean(x, all_states=True)
            assert torch.equal(y, wanted)
            assert all(map(torch.equal, (*last, every["h"]), (*others, all_["h"])))
            assert torch.equal(rnn(x, sample=sample)[0], y)
            assert not torch.equal(rnn(x, sample=True)[0], y)
        assert torch.equal(rnn.step(x[0], sample=sample)[0], mean.step(x[0])[0])
    stepper = rnn.stepper(B)
    assert torch.equal(stepper(x[0]), mean.stepper(B)(x[0]))
    only = {"keep": torch.ones(B, HIDDEN).double()}
    stepper.reset()
    one = stepper(x[0], inputs=only).clone()
    means = {"xi": torch.full((B,), 0.1).double(), "mask": torch.ones(B).double()}
    rnn.eval()
    assert torch.equal(rnn.step(x[0], inputs=only)[0], one)
    torch.testing.assert_close(rnn.step(x[0], inputs={**only, **means})[0], one)
    projected = [module(cell, proj_size=2).eval() for cell in (noisy_lstm, noisy_lstm.mean())]
    assert torch.equal(projected[0](x)[0], projected[1](x)[0])


def test_a_projected_module_draws_in_each_direction_of_each_layer(draws):
    rnn = module(noisy_lstm, num_layers=2, bidirectional=True, proj_size=2)
    x = input_of(T, B)
    for more in ({}, {"lengths": LENGTHS}):
        y = rnn(x, **more)[0]
        inputs = dict(draws)
        assert inputs["keep"].shape == (4, T, B, 1, HIDDEN)
        torch.testing.assert_close(rnn(x, **more, inputs=inputs)[0], y)
        for part in range(4):
            other = {n: t.clone() for n, t in inputs.items()}
            other["xi"][part] += 1
            assert not torch.allclose(rnn(x, **more, inputs=other)[0], y)


def test_calls_that_come_again_draw_anew_and_seeds_repeat_them():
    rnn, x = module(num_layers=2, dtype=torch.float32), input_of(T, B).float()
    torch.manual_seed(7)
    first = [rnn(x)[0] for _ in range(5)]  # later ones are known, and replayed
    assert all(not torch.equal(a, b) for a, b in pairwise(first))
    torch.manual_seed(7)
    assert all(torch.equal(rnn(x)[0], y) for y in first)
    generators = [torch.Generator().manual_seed(8) for _ in range(2)]
    before = torch.get_rng_state()
    assert torch.equal(*[rnn(x, generator=g)[0] for g in generators])
    steps = [rnn.step(x[0], sample=True, inputs=MASK, generator=g)[0] for g in generators]
    assert torch.equal(*steps)
    assert torch.equal(torch.get_rng_state(), before)


MASK = {"mask": torch.ones(B)}


def test_nothing_but_a_call_touches_a_generator():
    rnn = module(num_layers=2)
    before = torch.get_rng_state()
    rnnc.warmup(rnn, (T, B, INPUT))
    rnnc.plan_for(noisy, rnnc.Shape(1, 64), rnnc.codegen.cuda.limits.limits_of("H200"))
    rnn(input_of(T, B), sample=False)
    rnn(input_of(T, B), inputs={name: torch.ones(T, B).double() for name in NAMES})
    assert torch.equal(torch.get_rng_state(), before)


POLICY = partial(create_selective_checkpoint_contexts, rnnc.distributed.save_policy)


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": True},
        {"use_reentrant": False},
        {"use_reentrant": False, "context_fn": POLICY},
    ],
)
def test_a_checkpointed_call_gives_the_same_bits(options):
    rnn = module(num_layers=2, bidirectional=True)
    found = []
    for way in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, **options)):
        x = input_of(T, B).requires_grad_()
        rnn.zero_grad()
        torch.manual_seed(9)
        y = way(lambda x: rnn(x)[0], x)
        y.square().sum().backward()
        found.append([y, x.grad, *(p.grad for p in rnn.parameters())])
    assert all(map(torch.equal, *found))


def test_compiled_and_exported_calls_draw_as_eager_ones():
    rnn, x = module(num_layers=2, bidirectional=True), input_of(T, B)
    reset = torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.4
    torch._dynamo.reset()
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    exported = torch.export.export(rnn, (x,), {"reset": reset}).module()
    for run in (compiled, exported):
        torch.manual_seed(10)
        wanted = rnn(x, reset=reset)[0]
        torch.manual_seed(10)
        found = run(x, reset=reset)[0]
        torch.testing.assert_close(found, wanted)
        assert not torch.allclose(run(x, reset=reset)[0], found)
    rnn.eval()
    torch.testing.assert_close(compiled(x)[0], rnn(x)[0])


def test_rows_of_vmap_and_gradients_of_torch_func():
    rnn, x = module(num_layers=2), torch.stack([input_of(T, B)] * 2)
    apart = torch.vmap(lambda x: rnn(x)[0], randomness="different")(x)
    same = torch.vmap(lambda x: rnn(x)[0], randomness="same")(x)
    assert not torch.allclose(*apart)
    torch.testing.assert_close(*same)
    inputs = {n: torch.rand(2, 2, T, B, 1, HIDDEN).double() for n in NAMES}
    found = torch.vmap(lambda x, inputs: rnn(x, inputs=inputs)[0])(x, inputs)
    wanted = [rnn(x[i], inputs={n: t[i] for n, t in inputs.items()})[0] for i in range(2)]
    torch.testing.assert_close(found, torch.stack(wanted))


def test_axes_of_layers_come_first():
    rnn, x = module(num_layers=3), input_of(T, B)
    given = {name: torch.rand(T, B).double() for name in NAMES}
    wanted = rnn(x, inputs=given)[0]
    for count, units in product((1, 3), ((), (HIDDEN,), (1, HIDDEN))):
        spread = {
            n: t.view(1, T, B, *[1] * len(units)).expand(count, T, B, *units)
            for n, t in given.items()
        }
        torch.testing.assert_close(rnn(x, inputs=spread)[0], wanted)
    single = {n: t[:, 0].expand(3, T) for n, t in given.items()}
    torch.testing.assert_close(rnn(x[:, 0], inputs=single)[0], wanted[:, 0])
    with pytest.raises(rnnc.TensorError, match="or behind 3, layers"):
        rnn(x, inputs={**given, "xi": torch.rand(2, T, B, 1, 1).double()})


def test_a_graph_of_fx_keeps_the_arguments():
    class Frozen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = module()

        def forward(self, x):
            return self.rnn(x, sample=False)[0]

    frozen, x = Frozen(), input_of(T, B)
    assert torch.equal(torch.fx.symbolic_trace(frozen)(x), frozen(x))


def test_refusals():
    rnn, x = module(), input_of(T, B)
    wx = input_of(B, T, 1, HIDDEN)[..., :1]
    starts = torch.tensor([0, B * T], dtype=torch.int32)
    ways = (
        lambda **more: rnn(x, **more),
        lambda **more: rnn.step(x[0], **more),
        lambda **more: rnnc.scan(noisy, wx, **more),
        lambda **more: rnnc.scan_packed(noisy, wx.flatten(0, 1), cu_seqlens=starts, **more),
    )
    for call, (more, name, write) in product(
        ways,
        [
            ({"sample": 1}, "sample", "sample=True"),
            ({"generator": 3}, "generator", "torch.Generator('cpu')"),
            ({"inputs": {"k": x}, "sample": False}, "inputs", "inputs={'keep': …"),
            ({"inputs": {"k": x}}, "inputs", "inputs={"),
            ({"inputs": [x], "sample": False}, "inputs", "inputs={'keep': …"),
        ],
    ):
        with pytest.raises(rnnc.TensorError) as caught:
            call(**more)
        assert caught.value.argument == name
        assert caught.value.write.startswith(write)
    with pytest.raises(
        rnnc.TensorError, match="one on cpu\n  wanted: one on cuda:1, as the tensors"
    ):
        check_drawing(True, torch.Generator(), torch.device("cuda:1"))
    with pytest.raises(rnnc.TensorError, match="'mask', which is drawn once per sequence"):
        rnn.step(x[0])
