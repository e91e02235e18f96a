"""The operators under torch: opcheck, compilation without a graph break, autocast."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.grad.operators.call import call_backward_op, call_op
from torch import nn

# Dense gates with biases, a diagonal gate, params without biases. The others differ in the sizes of
# the tensors alone; each takes seconds.
CELLS = [
    "lstm",
    "unicornn",
    "fastgrnn",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gru", "slstm", "cornn")),
]


@pytest.mark.parametrize("name", CELLS)
def test_opcheck_forward(name, inputs_for, scan_call):
    cell = rnnc.cells.get(name)
    torch.library.opcheck(call_op, scan_call(cell, inputs_for(cell, 3, 4, 2, 5)))
    inference = inputs_for(cell, 3, 4, 2, 5, requires_grad=False)
    torch.library.opcheck(call_op, scan_call(cell, inference, keep=False))


def test_opcheck_in_reversed_time(inputs_for, scan_call):
    cell = rnnc.cells.gru
    torch.library.opcheck(call_op, scan_call(cell, inputs_for(cell, 3, 4, 2, 5), reverse=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("precision", [None, "ieee"])
def test_the_operator_is_what_scan_computes(precision, reverse, inputs_for, scan_call):
    cell = rnnc.cells.gru
    inputs = inputs_for(cell, 3, 4, 2, 5)
    seeds = [torch.randn_like(inputs.wx[..., 0]).transpose(0, 1)]
    found = call_op(*scan_call(cell, inputs, reverse=reverse, precision=precision))[:1]
    wanted, _ = rnnc.scan(
        cell, inputs.wx, inputs.R, inputs.b, inputs.states, reverse=reverse, backend="cpu"
    )
    assert torch.equal(found[0].transpose(0, 1), wanted[0])
    leaves = list(inputs.named().values())
    got = torch.autograd.grad(found, leaves, seeds)
    same = torch.autograd.grad(wanted, leaves, [s.transpose(0, 1) for s in seeds])
    assert all(map(torch.equal, got, same))


@pytest.mark.parametrize("name", CELLS)
def test_opcheck_backward(name, inputs_for, scan_call):
    """Of a backward that does not read wx, and gives its gradient."""
    cell = rnnc.cells.get(name)
    inputs = inputs_for(cell, 3, 4, 2, 5, requires_grad=False)
    tensors, text = scan_call(cell, inputs)
    count, out = len(inputs.states), call_op(tensors, text)
    seeds = [torch.randn_like(each) for each in out[: 2 * count]]
    results, needs = [*out[:count], *out[2 * count :]], [True] * len(tensors)
    missing = [None] * count
    for given in (seeds, [*seeds[:count], *missing], [*missing, *seeds[count:]]):
        call = given, tensors[1:], results, needs, text
        torch.library.opcheck(call_backward_op, call)
        found = call_backward_op(*call)
        assert [d.shape for d in found] == [t.shape for t in tensors]


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


def test_misuse_of_the_operator_is_refused(inputs_for, scan_call):
    cell = rnnc.cells.elman
    with pytest.raises(RuntimeError, match="none follows, and its tensors need gradients"):
        call_op(*scan_call(cell, inputs_for(cell, 2, 3, 1, 4), keep=False))


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
