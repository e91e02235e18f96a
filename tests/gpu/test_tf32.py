"""TF32 exactly where torch's recurrent networks use it, by its flag or by `precision`."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import rnnc
import torch
from torch import nn

RNN = "torch.backends.cudnn.rnn.fp32_precision"
PROGRAM = """
import sys
import rnnc, torch
setting, variant, dim = sys.argv[1], sys.argv[2], int(sys.argv[3])
wx = torch.randn(4, 20, 1, dim, 1, device="cuda")
R = (torch.randn(1, 1, dim, dim, device="cuda") / dim**0.5).requires_grad_()
exact = rnnc.scan(rnnc.cells.elman, wx.double(), R.double(), backend="reference")[1][0]
def error():
    found = rnnc.scan(rnnc.cells.elman, wx, R, variant=variant)[1][0]
    found.sum().backward()
    return ((found - exact).norm() / exact.norm()).item()
default = error()
exec(setting)
print(default, error())
"""


@pytest.mark.parametrize(
    ("setting", "rounds"),
    [
        (f"{RNN} = 'ieee'", False),
        ("torch.backends.cudnn.allow_tf32 = False", False),
        ("torch.set_float32_matmul_precision('highest')", True),
        ("torch.backends.cuda.matmul.allow_tf32 = False", True),
    ],
)
@pytest.mark.parametrize(
    ("variant", "dim"), [("block", 64), ("cluster", 128), ("grid", 256), ("alternating", 64)]
)
def test_it_is_the_default_and_off_by_each_name(setting, rounds, variant, dim):
    words = [sys.executable, "-c", PROGRAM, setting, variant, str(dim)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    default, then = map(float, done.stdout.split())
    assert 2e-5 < default < 5e-3
    assert (2e-5 < then < 5e-3) if rounds else (then < 5e-6)


def results(module, x, seed):
    """Output, last states and gradients."""
    x = x.detach().requires_grad_()
    y, _ = module(x)
    parameters = list(module.parameters())
    return [y.detach(), *torch.autograd.grad(y, [x, *parameters], seed)]


def lstm_like(theirs: nn.LSTM, layers: int, **options) -> rnnc.RNN:
    """A module with the weights of `nn.LSTM`."""
    size, hidden = theirs.input_size, theirs.hidden_size
    ours = rnnc.RNN(rnnc.cells.lstm, size, hidden, num_layers=layers, device="cuda", **options)
    with torch.no_grad():
        for k in range(layers):
            for name in ("weight_ih", "weight_hh"):
                mine = getattr(ours, f"{name}_l{k}")
                mine.copy_(getattr(theirs, f"{name}_l{k}"))
            bias = getattr(theirs, f"bias_ih_l{k}") + getattr(theirs, f"bias_hh_l{k}")
            getattr(ours, f"bias_l{k}").copy_(bias)
    return ours


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("variant", ["auto", "block", "alternating"])
def test_errors_are_those_of_torch_s_module(precision, save, variant, monkeypatch):
    """At most twice torch's error against float64, in every result and gradient."""
    monkeypatch.setattr(torch.backends.cudnn.rnn, "fp32_precision", precision)
    torch.manual_seed(0)
    theirs = nn.LSTM(48, 64, 2, device="cuda")
    ours = lstm_like(theirs, 2, save=save, variant=variant)
    x, seed = (torch.randn(30, 16, n, device="cuda") for n in (48, 64))
    exact_module = nn.LSTM(48, 64, 2, device="cuda", dtype=torch.float64)
    exact_module.load_state_dict(theirs.state_dict())
    exact, torchs = (
        results(module, x.to(dtype), seed.to(dtype))
        for module, dtype in ((exact_module, torch.float64), (theirs, torch.float32))
    )
    found = results(ours, x, seed)
    # Both sides' tensors by the same names: torch has two biases of the same gradient.
    names = ["y", "d x"]
    pairs = [(0, 0), (1, 1)]
    mine = [name for name, _ in ours.named_parameters()]
    other = [name for name, _ in theirs.named_parameters()]
    for k in range(2):
        for name, same in (
            ("weight_ih", "weight_ih"),
            ("weight_hh", "weight_hh"),
            ("bias", "bias_ih"),
        ):
            names.append(f"d {name}_l{k}")
            pairs.append((2 + mine.index(f"{name}_l{k}"), 2 + other.index(f"{same}_l{k}")))
    for name, (i, j) in zip(names, pairs, strict=True):
        wanted = exact[j]
        scale = wanted.norm()
        error = (found[i].double().reshape(wanted.shape) - wanted).norm() / scale
        peer = (torchs[j].double() - wanted).norm() / scale
        floor = 3e-4 if precision == "tf32" else 3e-7
        assert error <= 2 * max(peer, floor), (name, error.item(), peer.item())
        if precision == "tf32":
            assert error > 3e-6, name


@pytest.mark.parametrize("variant", ["block", "cluster", "grid", "alternating"])
@pytest.mark.parametrize("through", ["scan", "module"])
def test_the_backward_does_what_its_forward_did(variant, through, monkeypatch):
    flags = torch.backends.cudnn.rnn
    dim = {"block": 64, "cluster": 128, "grid": 256}.get(variant, 64)
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.lstm, 24, dim, variant=variant, device="cuda")
    x = torch.randn(9, 5, 24, device="cuda")
    wx = torch.randn(5, 9, 1, dim, 4, device="cuda")

    def run(forward, backward):
        rnn.zero_grad(set_to_none=True)
        monkeypatch.setattr(flags, "fp32_precision", forward)
        if through == "module":
            y = rnn(x)[0]
        else:
            R, b = rnn.weight_hh_l0.view(4, 1, dim, dim), rnn.bias_l0.view(4, 1, dim)
            y = rnnc.scan(rnnc.cells.lstm, wx, R, b, variant=variant)[0][0]
        monkeypatch.setattr(flags, "fp32_precision", backward)
        y.square().sum().backward()
        return [p.grad for p in rnn.parameters() if p.grad is not None]

    rounded, exact = run("tf32", "tf32"), run("ieee", "ieee")
    for got, wanted in zip(run("tf32", "ieee"), rounded, strict=True):
        assert torch.equal(got, wanted)
    for got, wanted in zip(run("ieee", "tf32"), exact, strict=True):
        assert torch.equal(got, wanted)
    assert not all(torch.equal(a, b) for a, b in zip(rounded, exact, strict=True))


def test_an_argument_overrules_the_flag_and_other_products_flags_do_not_matter(monkeypatch):
    flags, others = torch.backends.cudnn.rnn, torch.backends.cuda.matmul
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.gru, 24, 64, num_layers=2, device="cuda", save="states")
    x, seed = torch.randn(9, 5, 24, device="cuda"), torch.randn(9, 5, 64, device="cuda")
    wanted = {}
    for precision in ("ieee", "tf32"):
        monkeypatch.setattr(flags, "fp32_precision", precision)
        wanted[precision] = results(rnn, x, seed)
    for flag in ("ieee", "tf32"):
        for other in ("ieee", "tf32"):
            monkeypatch.setattr(flags, "fp32_precision", flag)
            monkeypatch.setattr(others, "fp32_precision", other)
            for precision in (None, "ieee", "tf32"):
                rnn.precision = precision
                found = results(rnn, x, seed)
                for got, right in zip(found, wanted[precision or flag], strict=True):
                    # Where torch's flag agrees, the product is torch's, by another algorithm.
                    tolerance = 1e-5 if (precision or flag) == "ieee" else 2e-3
                    torch.testing.assert_close(got, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_a_captured_training_step_gives_the_same_bits(precision):
    torch.manual_seed(0)
    rnn = rnnc.RNN(rnnc.cells.lstm, 24, 64, num_layers=2, device="cuda", precision=precision)
    x, seed = torch.randn(9, 5, 24, device="cuda"), torch.randn(9, 5, 64, device="cuda")
    parameters = list(rnn.parameters())
    wanted = torch.autograd.grad(rnn(x)[0], parameters, seed)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(rnn(x)[0], parameters, seed)
    torch.cuda.current_stream().wait_stream(side)
    # Other leaves: autograd's thread may let the graph of a call before go late, and these would
    # make the capture wait for its stream.
    captured = copy.deepcopy(rnn)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = torch.autograd.grad(captured(x)[0], list(captured.parameters()), seed)
    for _ in range(2):
        for gradient in found:
            gradient.fill_(torch.nan)
        graph.replay()
        for got, right in zip(found, wanted, strict=True):
            assert torch.equal(got, right)
