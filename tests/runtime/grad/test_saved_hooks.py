"""Hooks on saved tensors: another layout is read correctly, any other change is an error."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, param, tanh
from rnnc.runtime.cpu import kernels
from rnnc.runtime.grad import compute
from torch.autograd.graph import saved_tensors_hooks

B, T, N, D = 2, 5, 2, 3


@rnnc.cell
def odd(
    h: State,
    c: State,
    *,
    a: Gate = gate(source="c"),
    b: Gate = gate(recurrent="diagonal"),
    w: Param = param(0.5),
):
    """Has a tensor of every kind."""
    return tanh(a + w * b) + 0.1 * c, tanh(h * w + a)


def gaps(tensor):
    """The same values with gaps between them, not all gaps alike."""
    wide = tensor.new_zeros(*tensor.shape[:-1], tensor.shape[-1] + 3)
    wide = wide.repeat(*(1 for _ in tensor.shape[1:]), 2)
    view = wide[..., 1 : 1 + tensor.shape[-1]]
    view.copy_(tensor)
    return view


def reversed_axes(tensor):
    """The same values, last axis first in memory."""
    order = list(range(tensor.ndim))[::-1]
    return tensor.permute(order).contiguous().permute(order)


def late(tensor):
    """The same values, one element after the start of their memory."""
    memory = tensor.new_zeros(tensor.numel() + 1)
    view = memory[1:].view(tensor.shape)
    view.copy_(tensor)
    return view


def negative(tensor):
    """The same values behind the negative bit."""
    return torch._neg_view((-tensor).contiguous())


RIGHT = {
    "the same": lambda t: t,
    "a copy": torch.clone,
    "gaps": gaps,
    "reversed": reversed_axes,
    "late": late,
    "negative": negative,
    "through float32's file": lambda t: torch.from_numpy(t.detach().numpy().copy()),
}
WRONG = {
    "empty": (lambda t: t.new_empty(0), "shape (0,)"),
    "another dtype": (lambda t: t.float(), "dtype torch.float32"),
    "meta": (lambda t: t.to("meta"), "device meta"),
    "one axis more": (lambda t: t[None], "shape (1, "),
    "a shorter axis": (lambda t: t[..., :-1], "shape ("),
    "sparse": (lambda t: t.to_sparse(), "layout torch.sparse_coo"),
    "without memory": (lambda t: emptied(t), "without memory"),
}
WAYS = ["direct", "operator"]


def emptied(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


def gradients(inputs, way, unpack, which=None):
    """Every gradient by name, where a hook changes the saved tensors, or one of them."""
    seen = []

    def pack(tensor):
        seen.append(len(seen))
        return (len(seen) - 1, tensor.detach())

    def back(packed):
        number, tensor = packed
        return unpack(tensor) if which in (None, number) else tensor

    with saved_tensors_hooks(pack, back):
        out = scan(inputs, way)
    loss = sum((v * torch.arange(v.numel()).to(v).view(v.shape).sin()).sum() for v in out)
    named = inputs.named()
    found = torch.autograd.grad(loss, list(named.values()))
    return dict(zip(named, found, strict=True)), len(seen)


def scan(inputs, way):
    if way == "direct":
        return list(inputs.scan(odd, "cpu").values())
    given = (inputs.wx, inputs.R, inputs.R_diag, inputs.b, [inputs.params["w"]])
    out = torch.ops.rnnc.scan(
        *given, list(inputs.states), odd.text, True, [True, True], "auto", "gates"
    )
    # Its states at all steps are time first.
    return [out[0].transpose(0, 1), out[1].transpose(0, 1), out[2], out[3]][:2] + out[2:4]


def reordered(found, inputs):
    return {k: found[k] for k in inputs.named()}


def expected(inputs):
    out = inputs.scan(odd, "reference")
    order = ["h over time", "c over time", "h last", "c last"]
    loss = sum(
        (out[k] * torch.arange(out[k].numel()).to(out[k]).view(out[k].shape).sin()).sum()
        for k in order
    )
    named = inputs.named()
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", RIGHT)
def test_another_layout_is_read_rightly(kind, way, inputs_for):
    inputs = inputs_for(odd, B, T, N, D)
    wanted = expected(inputs)
    got, count = gradients(inputs, way, RIGHT[kind])
    assert count == 9  # R, R_diag, b, w, two states before, two at all steps, what was kept
    for key, value in wanted.items():
        torch.testing.assert_close(got[key], value, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", WRONG)
def test_anything_else_is_refused(kind, way, inputs_for):
    inputs = inputs_for(odd, B, T, N, D)
    change, found = WRONG[kind]
    for which in range(8):
        with pytest.raises(rnnc.TensorError) as caught:
            gradients(inputs, way, change, which)
        assert found in str(caught.value)
        assert "write:" in str(caught.value)


@pytest.mark.parametrize("save", ["gates", "states"])
def test_offloading_and_checkpoints(save, inputs_for):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, num_layers=2, save=save, dtype=torch.float64)
    x = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)
    parameters = [x, *rnn.parameters()]
    wanted = torch.autograd.grad(rnn(x)[0].square().sum(), parameters)
    with torch.autograd.graph.save_on_cpu():
        y = rnn(x)[0]
    offloaded = torch.autograd.grad(y.square().sum(), parameters)
    again = torch.utils.checkpoint.checkpoint(lambda x: rnn(x)[0], x, use_reentrant=False)
    recomputed = torch.autograd.grad(again.square().sum(), parameters)
    for a, b, c in zip(wanted, offloaded, recomputed, strict=True):
        torch.testing.assert_close(b, a)
        torch.testing.assert_close(c, a)


def test_hooks_of_one_saved_tensor(inputs_for):
    """They are registered after the forward, on the node."""
    inputs = inputs_for(odd, B, T, N, D)
    (h, _), _ = rnnc.scan(
        odd,
        inputs.wx,
        inputs.R,
        inputs.b,
        inputs.states,
        R_diag=inputs.R_diag,
        params=inputs.params,
    )
    node = h.grad_fn.next_functions[0][0]
    # The first, wx, is saved only if the gates are not, and the fourth is the W that there is not.
    for saved in (*node._raw_saved_tensors[1:3], *node._raw_saved_tensors[4:]):
        saved.register_hooks(lambda t: t, lambda t: t[..., :1])
    with pytest.raises(rnnc.TensorError, match="of a backward\n  found:  shape"):
        h.sum().backward()


def test_a_backward_that_failed_before_its_kernel_wrote_runs_again(inputs_for, monkeypatch):
    inputs = inputs_for(odd, B, T, N, D)
    wanted = expected(inputs)
    out = scan(inputs, "direct")
    seeds = [torch.arange(v.numel()).to(v).view(v.shape).sin() for v in out]
    named = inputs.named()
    original = kernels.recurrent_gradient

    def fail(*_):
        raise torch.OutOfMemoryError("no room for the sum")

    monkeypatch.setattr(kernels, "recurrent_gradient", fail)
    with pytest.raises(torch.OutOfMemoryError):
        torch.autograd.grad(out, list(named.values()), seeds)
    monkeypatch.setattr(kernels, "recurrent_gradient", original)
    found = torch.autograd.grad(out, list(named.values()), seeds)
    for (key, value), got in zip(wanted.items(), found, strict=True):
        torch.testing.assert_close(got, value, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("hooks", [False, True])
def test_a_backward_that_overwrote_what_was_kept_does_not_run_again(hooks, inputs_for, monkeypatch):
    """As on a GPU, where gradients take the memory of the gates."""
    inputs = inputs_for(odd, B, T, N, D)

    def identity(tensor):
        return tensor

    if hooks:
        with saved_tensors_hooks(identity, identity):
            out = scan(inputs, "direct")
    else:
        out = scan(inputs, "direct")
    loss = sum(v.sum() for v in out)

    def run(call, tensors, kept, gradients, needs, donated):
        assert donated
        kept.runs[0][-1].zero_()
        raise torch.OutOfMemoryError("no room for the sum")

    monkeypatch.setattr(compute, "backward_layers", run)
    with pytest.raises(torch.OutOfMemoryError):
        torch.autograd.grad(loss, inputs.wx)
    monkeypatch.undo()
    with pytest.raises(rnnc.RnncError, match="a second backward after one that failed"):
        torch.autograd.grad(loss, inputs.wx)
