"""`rnnc.nn` on a GPU: at most a little further from float64 than torch's modules."""

from __future__ import annotations

import copy

import pytest
import rnnc
import torch
from rnnc.runtime.nn import own, packed, sequences
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

NAMES = ["LSTM", "GRU", "RNN"]
EACH = pytest.mark.parametrize("name", NAMES)
EPS = {torch.float32: 2e-7, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.fixture
def by_kernels(monkeypatch):
    """Torch's own forward must not run."""

    def refuse(*_):
        raise AssertionError("torch's own forward ran")

    for room in (packed, own, sequences):
        monkeypatch.setattr(room, "run_torch", refuse)


@pytest.fixture(params=["ieee", "tf32"])
def precision(request):
    """How torch's modules and products round float32."""
    flags = torch.backends.cudnn.rnn, torch.backends.cuda.matmul
    before = [flag.fp32_precision for flag in flags]
    for flag in flags:
        flag.fp32_precision = request.param
    yield request.param
    for flag, value in zip(flags, before, strict=True):
        flag.fp32_precision = value


def pair(name, *sizes, **options):
    theirs = getattr(nn, name)(*sizes, **options, device="cuda")
    ours = getattr(rnnc.nn, name)(*sizes, **options, device="cuda")
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def cast(value, dtype):
    if isinstance(value, PackedSequence):
        return value._replace(data=value.data.to(dtype))
    if isinstance(value, tuple):
        return tuple(cast(each, dtype) for each in value)
    return None if value is None else value.to(dtype)


def assert_near(twins, ours, theirs, x, hx=None, eps=2e-7):
    """Compare by name with float64, whose weights and inputs are the same numbers."""
    exact = twins.named(
        copy.deepcopy(theirs).double(), cast(x, torch.float64), cast(hx, torch.float64)
    )
    wanted, got = twins.named(theirs, x, hx), twins.named(ours, x, hx)
    assert wanted.keys() == got.keys()
    for name, right in exact.items():
        scale = right.abs().max()
        error, allowed = ((f[name].double() - right).abs().max() for f in (got, wanted))
        assert error <= 3 * allowed + 8 * eps * scale, (name, float(error), float(allowed))
        assert got[name].dtype == wanted[name].dtype


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_options(name, dtype, by_kernels, torch_twins, precision):
    if dtype != torch.float32 and precision == "tf32":
        pytest.skip("no products of float32")
    options = [(1, False, False, True), (2, True, True, True), (3, False, False, False)]
    for layers, both, first, bias in options:
        ours, theirs = pair(
            name, 24, 64, layers, bidirectional=both, batch_first=first, bias=bias, dtype=dtype
        )
        for steps_ in (1, 17):
            shape = (5, steps_, 24) if first else (steps_, 5, 24)
            x = torch.randn(shape, device="cuda", dtype=dtype)
            states = torch.randn(2, layers * (1 + both), 5, 64, device="cuda", dtype=dtype)
            hx = tuple(states) if name == "LSTM" else states[0]
            eps = 1e-3 if precision == "tf32" else EPS[dtype]
            for _ in range(4):  # the last ones are replays
                assert_near(torch_twins, ours, theirs, x, hx, eps)
            assert_near(torch_twins, ours, theirs, x, None, eps)


@EACH
def test_float64(name, by_kernels, torch_twins):
    ours, theirs = pair(name, 12, 32, 2, bidirectional=True, dtype=torch.float64)
    x = torch.randn(9, 4, 12, device="cuda", dtype=torch.float64)
    torch_twins.assert_same(ours, theirs, x)
    assert rnnc.convert(theirs).left[""].startswith("float64 on a GPU")
    assert rnnc.convert(theirs, force=True).replaced
    assert rnnc.convert(theirs, back=True).replaced


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cells(name, dtype, by_kernels, torch_twins):
    ours, theirs = pair(name, 24, 64, dtype=dtype)
    for batch in ((), (1,), (40,)):
        x = torch.randn(*batch, 24, device="cuda", dtype=dtype)
        states = torch.randn(2, *batch, 64, device="cuda", dtype=dtype)
        hx = tuple(states) if name == "LSTMCell" else states[0]
        for _ in range(4):
            assert_near(torch_twins, ours, theirs, x, hx, EPS[dtype])


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed(name, dtype, by_kernels, torch_twins):
    ours, theirs = pair(name, 24, 64, 2, bidirectional=True, dtype=dtype)
    rows = [torch.randn(n, 24, device="cuda", dtype=dtype) for n in (3, 20, 1, 9, 20)]
    given = pack_sequence(rows, enforce_sorted=False)
    states = torch.randn(2, 4, 5, 64, device="cuda", dtype=dtype)
    hx = tuple(states) if name == "LSTM" else states[0]
    assert_near(torch_twins, ours, theirs, given, hx, EPS[dtype])
    assert_near(torch_twins, ours, theirs, given, None, EPS[dtype])


@EACH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(name, dtype, by_kernels, torch_twins):
    ours, theirs = pair(name, 24, 64, 2)
    x = torch.randn(17, 5, 24, device="cuda")
    given = pack_sequence([x[:n, 0] for n in (17, 4)])
    for call in (x, given):
        found = []
        for module in (ours, theirs):
            with torch.autocast("cuda", dtype):
                found.append(torch_twins.named(module, call))
        for key, wanted in found[1].items():
            got = found[0][key]
            # torch's modules take float16 on a GPU, whichever dtype autocast names.
            assert got.dtype == (dtype if wanted.dtype == torch.float16 else wanted.dtype), key
            scale = wanted.abs().max().float()
            assert (got.float() - wanted.float()).abs().max() <= 12 * EPS[dtype] * scale, key


def test_other_streams(by_kernels, torch_twins):
    ours, _ = pair("LSTM", 24, 64, 2)
    x = torch.randn(17, 5, 24, device="cuda")
    wanted = torch_twins.named(ours, x)
    for _ in range(4):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            got = torch_twins.named(ours, x)
        torch.cuda.current_stream().wait_stream(stream)
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("subclasses", [True, False])
def test_compile(subclasses, torch_twins):
    torch._dynamo.reset()
    model, theirs = pair("GRU", 24, 64, 2)
    rnnc.convert(model, isinstance=subclasses)
    compiled = torch.compile(model, fullgraph=not subclasses)
    for batch in (4, 6):
        x = torch.randn(17, batch, 24, device="cuda")
        torch.testing.assert_close(compiled(x), theirs(x), rtol=1e-3, atol=1e-3)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), theirs(x), rtol=1e-3, atol=1e-3)


def test_second_derivatives():
    """cuDNN has none; these are those of torch's operations."""
    ours, theirs = pair("LSTM", 6, 8, 2)
    x = torch.randn(5, 3, 6, device="cuda", requires_grad=True)
    found = []
    for module in (ours, theirs):
        with torch.backends.cudnn.flags(enabled=module is ours):
            (first,) = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
            found.append([first, *torch.autograd.grad(first.square().sum(), module.parameters())])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


def test_torchs_own_forward_warns_of_nothing(recwarn):
    ours = rnnc.nn.LSTM(6, 8, proj_size=4, device="cuda")
    ours(torch.randn(1, 3, 6, device="cuda"))
    assert not [w for w in recwarn if "contiguous chunk" in str(w.message)]


def test_after_a_move():
    ours, x = rnnc.nn.GRU(6, 8), torch.randn(5, 3, 6)
    wanted = ours(x)
    for _ in range(2):
        ours.cuda()
        for _ in range(3):
            torch.testing.assert_close(ours(x.cuda())[0].cpu(), wanted[0], rtol=1e-3, atol=1e-3)
        ours.cpu()
        torch.testing.assert_close(ours(x), wanted)


@EACH
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "batch_first": True}])
def test_lengths_and_resets(name, options, by_kernels):
    """Against the kernels of the CPU in float64; without states, which are zero then."""
    exact = getattr(rnnc.nn, name)(12, 24, 2, **options, dtype=torch.float64)
    ours = getattr(rnnc.nn, name)(12, 24, 2, **options)
    ours.load_state_dict(exact.state_dict())
    steps, batch, first = 40, 6, ours.batch_first
    lengths = torch.tensor([40, 0, 7, 33, 1, 20])
    reset = torch.rand(steps, batch) < 0.2
    reset[0] = True
    pad = (torch.arange(steps)[:, None] >= lengths)[..., None]
    x = torch.randn(steps, batch, 12).masked_fill(pad, float("nan"))
    x, reset = (v.transpose(0, 1) if first else v for v in (x, reset))
    parts, states = 4 if ours.bidirectional else 2, 2 if name == "LSTM" else 1
    values = [torch.randn(parts, 24) for _ in range(states)]
    found = []
    for module, device in ((exact, "cpu"), (ours, "cuda")):
        like = next(module.to(device).parameters())
        given = [value.to(like).requires_grad_() for value in values]
        masks = {"lengths": lengths.to(device), "reset": reset.to(device), "reset_to": given}
        y, h = module(x.to(like), **masks)
        h = h if name == "LSTM" else (h,)
        y.cos().sum().add(sum(each.sin().sum() for each in h)).backward()
        named = {n: p.grad for n, p in module.named_parameters()}
        named |= {f"reset_to {i}": value.grad for i, value in enumerate(given)}
        found.append({"y": y} | {f"last {i}": each for i, each in enumerate(h)} | named)
    for key, wanted in found[0].items():
        torch.testing.assert_close(
            found[1][key].cpu().double(), wanted, rtol=1e-3, atol=1e-3, msg=key
        )
