"""The operators under torch: opcheck, compilation without a graph break, autocast."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.grad.operators import scan_backward_op, scan_op
from torch import nn

# Dense gates with biases, a diagonal gate, params without biases. The others differ in the sizes of
# the tensors alone; each takes seconds.
CELLS = [
    "lstm",
    "unicornn",
    "fastgrnn",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gru", "slstm", "cornn")),
]


def arguments(cell, inputs, keep=True, reverse=False):
    params = [inputs.params[p.name] for p in cell.params]
    return (
        inputs.wx,
        inputs.R,
        inputs.R_diag,
        inputs.b,
        params,
        list(inputs.states),
        cell.text,
        keep,
        [True] * len(cell.states),
        "auto",
        "gates",
        *((None, True) if reverse else ()),
    )


@pytest.mark.parametrize("name", CELLS)
def test_opcheck_forward(name, inputs_for):
    cell = rnnc.cells.get(name)
    torch.library.opcheck(scan_op, arguments(cell, inputs_for(cell, 3, 4, 2, 5)))
    inference = inputs_for(cell, 3, 4, 2, 5, requires_grad=False)
    torch.library.opcheck(scan_op, arguments(cell, inference, keep=False))


def test_opcheck_in_reversed_time(inputs_for):
    cell = rnnc.cells.gru
    torch.library.opcheck(scan_op, arguments(cell, inputs_for(cell, 3, 4, 2, 5), reverse=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("precision", [None, "ieee"])
def test_the_operator_is_what_scan_computes(precision, reverse, inputs_for):
    """With each of the last arguments left out or given."""
    cell = rnnc.cells.gru
    inputs = inputs_for(cell, 3, 4, 2, 5)
    call = (*arguments(cell, inputs), precision, reverse)
    seeds = [torch.randn_like(inputs.wx[..., 0]).transpose(0, 1)]
    found = torch.ops.rnnc.scan(*call)[:1]
    wanted, _ = rnnc.scan(
        cell, inputs.wx, inputs.R, inputs.b, inputs.states, reverse=reverse, backend="cpu"
    )
    assert torch.equal(found[0].transpose(0, 1), wanted[0])
    leaves = list(inputs.named().values())
    got = torch.autograd.grad(found, leaves, seeds)
    same = torch.autograd.grad(wanted, leaves, [s.transpose(0, 1) for s in seeds])
    assert all(map(torch.equal, got, same))


@pytest.mark.parametrize("name", CELLS)
def test_opcheck_backward(name, inputs_for):
    cell = rnnc.cells.get(name)
    inputs = inputs_for(cell, 3, 4, 2, 5, requires_grad=False)
    wx, R, R_diag, _, params, initial, text, *_ = arguments(cell, inputs)
    count = len(initial)
    out = scan_op(*arguments(cell, inputs))
    d_states = [torch.randn_like(s) for s in out[:count]]
    d_last = [torch.randn_like(s) for s in out[count : 2 * count]]
    missing = [None] * count
    for d_all, d_end in ((d_states, d_last), (d_states, missing), (missing, d_last)):
        call = (d_all, d_end, None, None, R, R_diag, params, initial, out[:count], out[-1], text)
        call += ("auto", "gates")
        torch.library.opcheck(scan_backward_op, call)
    assert wx.shape[-1] == len(cell.input_gates)


class Model(nn.Module):
    """A model that holds an RNN."""

    def __init__(self, cell: rnnc.Cell, **options) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 6)
        self.rnn = rnnc.RNN(cell, 6, 12, num_layers=2, heads=3, **options)

    def forward(self, x, states=None):
        y, last = self.rnn(self.inner(x), states)
        return y.square().mean() + sum(s.mean() for s in last)


@pytest.mark.parametrize("options", [{}, {"batch_first": True, "dropout": 0.1}])
def test_compile_without_a_graph_break(options):
    torch._dynamo.reset()
    model = Model(rnnc.cells.slstm, **options).eval()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for shape in ((5, 4, 3), (7, 2, 3)):
        x = torch.randn(shape)
        gradients = []
        for run in (model, compiled):
            model.zero_grad()
            loss = run(x)
            loss.backward()
            gradients.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
        for wanted, got in zip(*gradients, strict=True):
            torch.testing.assert_close(got, wanted)


@pytest.mark.slow
def test_inductor_compiles_the_same_graph():
    torch._dynamo.reset()
    model = Model(rnnc.cells.gru).eval()
    compiled = torch.compile(model, fullgraph=True)
    x = torch.randn(5, 4, 3)
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).backward()


def test_scan_itself_compiles(inputs_for):
    torch._dynamo.reset()
    inputs = inputs_for(rnnc.cells.elman, 2, 3, 1, 4)

    def run(wx, R, b):
        return rnnc.scan(rnnc.cells.elman, wx, R, b)[0][0]

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    call = (inputs.wx, inputs.R, inputs.b)
    torch.testing.assert_close(compiled(*call), run(*call))


def test_autocast():
    model = Model(rnnc.cells.lstm)
    x = torch.randn(5, 4, 3)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x)
    loss.backward()
    assert loss.item() == pytest.approx(model(x).item(), rel=0.05)
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())


def test_autocast_of_the_operator(inputs_for):
    """Called by itself, the operator casts to the float32 that its kernels have."""
    cell = rnnc.cells.gru
    inputs = inputs_for(cell, 2, 3, 1, 4, torch.float32)
    call = list(arguments(cell, inputs))
    call[0] = call[0].detach().bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        out = torch.ops.rnnc.scan(*call)
    assert out[0].dtype == torch.float32


def test_misuse_of_the_operator_is_refused(inputs_for):
    cell = rnnc.cells.elman
    with pytest.raises(RuntimeError, match="keep=False on tensors that need gradients"):
        scan_op(*arguments(cell, inputs_for(cell, 2, 3, 1, 4), keep=False))


def test_second_derivatives_by_the_reference(inputs_for):
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 1, 2, 1, 2)

    def run(wx, R):
        return rnnc.scan(cell, wx, R, inputs.b, inputs.states, backend="reference")[0][0]

    assert torch.autograd.gradgradcheck(run, (inputs.wx, inputs.R), fast_mode=True)
    out = inputs.scan(cell, "cpu")["h last"].square().sum()
    (d_wx,) = torch.autograd.grad(out, inputs.wx, create_graph=True)
    with pytest.raises(RuntimeError, match='write:  backend="reference"'):
        d_wx.square().sum().backward()
