"""On a GPU: tensors that are not plain, hooks on saved tensors, transforms, fresh results."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.errors import SecondOrderError, TransformError
from rnnc.runtime.cuda import kernels as cuda
from rnnc.runtime.program.seen import Seen
from rnnc.runtime.scan import scan as scans
from torch import func, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn.utils import parametrizations, prune
from torch.utils.flop_counter import FlopCounterMode

CELL = rnnc.cells.lstm
SHAPE = (3, 5, 2, 16)
VARIANTS = ["block", "alternating"]
pytestmark = pytest.mark.filterwarnings("ignore:rnnc has no kernels")


@pytest.fixture(params=VARIANTS)
def variant(request) -> str:
    """Two kinds of plans: one launch, and launches by step."""
    return request.param


def negative(tensor):
    view = torch._neg_view((-tensor.detach()).contiguous())
    assert view.is_neg()
    return view.requires_grad_(tensor.requires_grad)


def gaps(tensor):
    wide = torch.stack([tensor.detach()] * 3, -1)
    return wide[..., 1].requires_grad_(tensor.requires_grad)


def late(tensor):
    memory = tensor.new_zeros(tensor.numel() + 1)
    view = memory[1:].view(tensor.shape)
    view.copy_(tensor.detach())
    return view.detach().requires_grad_(tensor.requires_grad)


LAYOUTS = {"negative": negative, "gaps": gaps, "late": late}


def close(got, wanted):
    assert got.keys() == wanted.keys()
    for key in wanted:
        torch.testing.assert_close(
            got[key], wanted[key], rtol=1e-5, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.fixture
def inputs(variant, draw):
    return draw(CELL, SHAPE, torch.float32, variant)


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("place", ["wx", "R", "b", "states[0]", "states[1]"])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_inputs(kind, place, save, variant, inputs, seeds_for, results):
    seeds = seeds_for(CELL, inputs)
    wanted = results(CELL, inputs, seeds, variant=variant, save=save)
    target = inputs.named()[place]
    other = inputs.map(lambda t: LAYOUTS[kind](t) if t is target else t)
    close(results(CELL, other, seeds, variant=variant, save=save), wanted)
    seeds = {k: LAYOUTS[kind](v) for k, v in seeds.items()}
    close(results(CELL, inputs, seeds, variant=variant, save=save), wanted)


def test_zeros_without_memory(variant, inputs, seeds_for, results):
    seeds = seeds_for(CELL, inputs)
    zeros = inputs.map(lambda t: t.detach().requires_grad_())
    zeros.states = tuple(torch.zeros_like(s).requires_grad_() for s in inputs.states)
    wanted = results(CELL, zeros, seeds, variant=variant)
    given = [
        torch._efficientzerotensor(s.shape, dtype=s.dtype, device="cuda") for s in inputs.states
    ]
    over_time, last = rnnc.scan(CELL, inputs.wx, inputs.R, inputs.b, given, variant=variant)
    close(
        {"h over time": over_time[0], "c last": last[1]},
        {k: wanted[k] for k in ("h over time", "c last")},
    )
    seeds = {
        k: torch._efficientzerotensor(v.shape, dtype=v.dtype, device="cuda")
        for k, v in seeds.items()
    }
    found = results(CELL, inputs, seeds, variant=variant)
    for key, value in found.items():
        if key.startswith("gradient"):
            assert not value.any(), key


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("kind", [*LAYOUTS, "offloaded"])
def test_saved_tensors(kind, save, variant, inputs, seeds_for, results):
    seeds = seeds_for(CELL, inputs)
    wanted = results(CELL, inputs, seeds, variant=variant, save=save)
    hooks = (
        save_on_cpu()
        if kind == "offloaded"
        else saved_tensors_hooks(lambda t: t.detach(), LAYOUTS[kind])
    )
    with hooks:
        close(results(CELL, inputs, seeds, variant=variant, save=save), wanted)


@pytest.mark.parametrize("way", ["direct", "operator"])
@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda t: t.new_empty(0), "shape (0,)"),
        (lambda t: t.bfloat16(), "dtype torch.bfloat16"),
        (lambda t: t.cpu(), "device cpu"),
        (lambda t: t[..., :-1], "shape ("),
    ],
    ids=["empty", "dtype", "device", "shorter"],
)
def test_saved_tensors_that_are_others(change, found, save, way, variant, inputs, scan_call):
    def scan():
        if way == "direct":
            return rnnc.scan(
                CELL, inputs.wx, inputs.R, inputs.b, inputs.states, variant=variant, save=save
            )[0][0]
        return torch.ops.rnnc.call(*scan_call(CELL, inputs, variant=variant, save=save))[0]

    for which in range(7):
        seen = []

        def pack(tensor, seen=seen):
            seen.append(tensor)
            return (len(seen) - 1, tensor.detach())

        def unpack(packed, which=which):
            number, tensor = packed
            return change(tensor) if number == which and tensor.numel() else tensor

        with saved_tensors_hooks(pack, unpack):
            h = scan()
        with pytest.raises(rnnc.TensorError) as caught:
            h.sum().backward()
        assert found in str(caught.value)
    torch.cuda.synchronize()  # the context lives


def test_a_backward_that_failed_after_its_kernel(variant, inputs, monkeypatch):
    def gradients(h, **options):
        return torch.autograd.grad(h.sum(), [inputs.wx, inputs.R, inputs.b], **options)

    def scan():
        return rnnc.scan(CELL, inputs.wx, inputs.R, inputs.b, inputs.states, variant=variant)[0][0]

    def fail(*_, **__):
        raise torch.OutOfMemoryError("no room for the sum")

    monkeypatch.setattr(scans, "_CALLS", Seen())  # a replay runs no Python
    wanted = gradients(scan())
    for retain in (False, True):
        h = scan()
        with monkeypatch.context() as patched:
            patched.setattr(cuda, "recurrent_sums", fail)
            with pytest.raises(torch.OutOfMemoryError):
                gradients(h, retain_graph=retain)
        if retain:
            for got, value in zip(gradients(h), wanted, strict=True):
                torch.testing.assert_close(got, value)
        else:
            with pytest.raises(rnnc.RnncError, match="a second backward after one that failed"):
                gradients(h)


def test_weights_that_are_no_parameters(variant):
    torch.manual_seed(0)
    options = {"heads": 2, "num_layers": 2, "variant": variant, "device": "cuda"}
    x = torch.randn(5, 3, 4, device="cuda")
    for name in ("weight_ih_l0", "weight_hh_l1", "bias_l0"):
        for change in (parametrizations.weight_norm, prune.identity):
            rnn = rnnc.RNN(CELL, 4, 32, **options)
            nn.init.normal_(rnn.bias_l0)
            wanted = rnn(x)[0]
            change(rnn, name)
            got = rnn(x)[0]
            torch.testing.assert_close(got, wanted)
            got.sum().backward()
            assert all(p.grad.abs().sum() > 0 for p in rnn.parameters())
    rnn.bias_l1 = None
    with pytest.raises(rnnc.TensorError, match="bias_l1\n  found:  nothing"):
        rnn(x)
    rnn.bias_l1 = nn.Parameter(torch.zeros(128))  # on the CPU
    with pytest.raises((rnnc.RnncError, RuntimeError)):
        rnn(x)
    torch.cuda.synchronize()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_leaves_float64_alone(dtype):
    rnn = rnnc.RNN(CELL, 4, 32, variant="alternating", device="cuda", dtype=torch.float64)
    x = torch.randn(5, 3, 4, device="cuda", dtype=torch.float64)
    wanted = rnn(x)[0]
    with torch.autocast("cuda", dtype):
        got = rnn(x)[0]
        assert got.dtype == torch.float64
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)
        wx = torch.randn(2, 3, 1, 16, 1, device="cuda", dtype=torch.float64)
        R = torch.randn(1, 1, 16, 16, device="cuda")
        assert rnnc.scan(rnnc.cells.elman, wx, R)[0][0].dtype == torch.float64
        assert rnnc.scan(rnnc.cells.elman, wx.float(), R)[0][0].dtype == dtype


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("steps", [0, 3])
def test_results_are_fresh(steps, backend, variant):
    rnn = rnnc.RNN(CELL, 4, 32, heads=2, backend=backend, variant=variant, device="cuda")
    x = torch.randn(steps, 3, 4, device="cuda")
    given = tuple(torch.randn(1, 3, 32, device="cuda") for _ in range(2))
    for states in (None, given):
        with torch.no_grad():
            y, last = rnn(x, states)
            again = [t.clone() for t in (y, *last)]
            for tensor in (y, *last):
                tensor.add_(1)
            for tensor, before in zip((y, *last), again, strict=True):
                assert torch.equal(tensor, before + 1)
            y, last = rnn(x, states)
        for tensor, before in zip((y, *last), again, strict=True):
            assert torch.equal(tensor, before)
    if not steps:
        assert torch.equal(last[0], given[0])
        _, last = rnnc.scan(
            CELL,
            torch.randn(3, 0, 2, 16, 4, device="cuda"),
            torch.randn(4, 2, 16, 16, device="cuda"),
            states=[state.view(3, 2, 16) for state in given],
            variant=variant,
        )
        for result, state in zip(last, given, strict=True):
            assert torch.equal(result.flatten(), state.flatten())
            assert result.data_ptr() != state.data_ptr()


def test_transforms(variant):
    options = {"heads": 2, "variant": variant, "device": "cuda"}
    x = torch.randn(5, 3, 4, device="cuda")
    rnn = rnnc.RNN(CELL, 4, 32, **options)
    twin = rnnc.RNN(CELL, 4, 32, backend="reference", **options)
    twin.load_state_dict(rnn.state_dict())
    named = rnnc.RNN(CELL, 4, 32, backend="cuda", **options)
    named.load_state_dict(rnn.state_dict())
    for transform in (
        lambda m: func.vmap(lambda x: m(x)[0])(torch.stack([x, 2 * x])),
        lambda m: func.grad(lambda x: m(x)[0].sum())(x),
        lambda m: func.vmap(func.grad(lambda x: m(x[:, None])[0].square().sum()), 1)(x),
    ):
        torch.testing.assert_close(transform(named), transform(twin), rtol=1e-4, atol=1e-5)

    def forward_mode(m):
        return func.jvp(lambda x: m(x)[0], (x,), (x,))[1]

    torch.testing.assert_close(forward_mode(rnn), forward_mode(twin))
    with pytest.raises(TransformError, match='backend="reference"'):
        forward_mode(named)
    with pytest.raises(TransformError, match='backend="reference"'):
        torch.jit.trace(rnn, x)
    with pytest.raises(TransformError, match='backend="reference"'):
        torch.autograd.functional.jacobian(lambda x: rnn(x)[0].sum((0, 1)), x, vectorize=True)
    with pytest.raises(SecondOrderError, match='backend="reference"'):
        torch.autograd.functional.hvp(lambda x: rnn(x)[0].sum(), x, x)
    graph = func.functionalize(lambda x: rnn(x)[0])
    torch.testing.assert_close(graph(x), rnn(x)[0])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        rnn(x)
    assert counter.get_total_flops() == 2 * 15 * 4 * 32 * 4 + 2 * 15 * 4 * 2 * 16 * 16


def test_the_operators_refuse_what_their_kernels_would_misread(variant, inputs, scan_call):
    given, text = scan_call(CELL, inputs, variant=variant)
    given = [tensor.detach() for tensor in given]
    torch.ops.rnnc.call(given, text)
    *_, R, b = given
    for place, bad in ((3, R.cpu()), (3, R[..., :8]), (4, b.half())):
        with pytest.raises((rnnc.TensorError, RuntimeError)):
            torch.ops.rnnc.call([*given[:place], bad, *given[place + 1 :]], text)
    with pytest.raises(rnnc.TensorError):
        torch.ops.rnnc.call(given[:-1], text)
    torch.cuda.synchronize()


def test_a_weight_that_was_left_on_the_cpu(variant):
    x = torch.randn(5, 3, 8, device="cuda")
    rnn = rnnc.RNN(CELL, 8, 32, heads=2, num_layers=2, variant=variant, device="cuda")
    devices = ["cpu", "cuda:1"] if torch.cuda.device_count() > 1 else ["cpu"]
    for name, weight in list(rnn.named_parameters())[1:]:
        for device in devices:
            rnn.register_parameter(name, nn.Parameter(weight.detach().to(device)))
            with pytest.raises(rnnc.TensorError) as caught:
                rnn(x)
            assert f"{name}\n  found:  device {device}\n  wanted: cuda:0" in str(caught.value)
        rnn.register_parameter(name, weight)
    rnn(x)
    torch.cuda.synchronize()  # the context lives
