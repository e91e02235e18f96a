"""Tensors whose memory differs from their values, and calls that a mode must see."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, param, tanh
from rnnc.runtime.grad.operators.call import call_backward_op, call_op
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

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
    return tanh(a + w * b) + 0.1 * c, h * w + a


def negative(tensor):
    """The same values behind the negative bit."""
    view = torch._neg_view((-tensor.detach()).contiguous())
    assert view.is_neg()
    assert torch.equal(view, tensor)
    return view.requires_grad_(tensor.requires_grad)


def imaginary(tensor):
    """The same values as the imaginary part of a conjugate, the usual way to a negative bit."""
    value = tensor.detach()
    view = torch.complex(torch.zeros_like(value), -value).conj().imag
    assert view.is_neg()
    assert torch.equal(view, tensor)
    return view.requires_grad_(tensor.requires_grad)


class Plain(torch.Tensor):
    """A subclass that adds nothing."""


class Wrapper(torch.Tensor):
    """A subclass without memory of its own, as quantised and distributed tensors are."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner.detach()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def bare(value):
            return value.inner if isinstance(value, Wrapper) else value

        return function(*tree_map(bare, args), **tree_map(bare, kwargs or {}))


KINDS = {
    "negative": negative,
    "imaginary": imaginary,
    "subclass": lambda t: t.detach().as_subclass(Plain).requires_grad_(t.requires_grad),
    "wrapper": lambda t: Wrapper(t.detach()).requires_grad_(t.requires_grad),
}
PLACES = ["wx", "R", "b", "states[0]", "states[1]", "R_diag", "params[w]"]


def changed(inputs, place, change):
    """The same call with one tensor changed."""
    named = inputs.named()
    target = named[place]
    return inputs.map(lambda t: change(t) if t is target else t)


def outputs_and_gradients(inputs, backend="auto"):
    out = inputs.scan(odd, backend)
    seeds = {k: torch.arange(v.numel()).to(v).view(v.shape).sin() for k, v in out.items()}
    loss = sum((out[k] * seeds[k]).sum() for k in out)
    named = inputs.named()
    found = torch.autograd.grad(loss, list(named.values()))
    found = {f"d_{k}": g for k, g in zip(named, found, strict=True)}
    return {k: v.detach() for k, v in (out | found).items()}


def check_close(got, wanted):
    assert got.keys() == wanted.keys()
    for key in wanted:
        a, b = got[key], wanted[key]
        a = a.inner if isinstance(a, Wrapper) else a
        torch.testing.assert_close(
            a.as_subclass(torch.Tensor), b, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["negative", "imaginary", "subclass"])
def test_a_tensor_of_another_kind_is_the_same_tensor(kind, place, inputs_for):
    inputs = inputs_for(odd, B, T, N, D)
    wanted = outputs_and_gradients(inputs, "reference")
    check_close(outputs_and_gradients(changed(inputs, place, KINDS[kind])), wanted)
    with torch.no_grad():
        got = changed(inputs, place, KINDS[kind]).scan(odd, "cpu")
    check_close(got, {k: v for k, v in wanted.items() if not k.startswith("d_")})


@pytest.mark.parametrize("place", PLACES)
def test_a_wrapper_sees_the_operator(place, inputs_for):
    inputs = inputs_for(odd, B, T, N, D, requires_grad=False)
    wanted = inputs.scan(odd, "reference")
    check_close(changed(inputs, place, Wrapper).scan(odd, "auto"), wanted)


@pytest.mark.parametrize("place", PLACES)
def test_zeros_without_memory(place, inputs_for):
    inputs = inputs_for(odd, B, T, N, D, requires_grad=False)

    def efficient(tensor):
        zeros = torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype)
        assert torch._is_zerotensor(zeros)
        assert not zeros.data_ptr()
        return zeros

    wanted = changed(inputs, place, torch.zeros_like).scan(odd, "reference")
    check_close(changed(inputs, place, efficient).scan(odd, "auto"), wanted)
    # The others still have gradients.
    inputs = inputs.map(lambda t: t.detach())
    source = next(p for p in ("wx", "R") if p != place)
    inputs.named()[source].requires_grad_()
    found = []
    for change in (efficient, torch.zeros_like):
        given = changed(inputs, place, change)
        out = given.scan(odd, "auto")
        loss = sum(v.square().sum() for v in out.values())
        found.append(torch.autograd.grad(loss, given.named()[source])[0])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("place", PLACES)
def test_a_fake_tensor_among_real_ones_is_refused(place, inputs_for):
    inputs = inputs_for(odd, B, T, N, D, requires_grad=False)
    mode = FakeTensorMode()
    with pytest.raises((rnnc.RnncError, AssertionError), match=r"(?i)fake"):
        changed(inputs, place, mode.from_tensor).scan(odd, "auto")


@pytest.mark.parametrize("place", PLACES)
def test_memory_that_was_given_back_is_refused(place, inputs_for):
    """As fully sharded modules do between their calls."""
    inputs = inputs_for(odd, B, T, N, D, requires_grad=False)

    def emptied(tensor):
        tensor = tensor.clone()
        tensor.untyped_storage().resize_(0)
        return tensor

    with pytest.raises(rnnc.TensorError, match="without memory"):
        changed(inputs, place, emptied).scan(odd, "auto")


@pytest.mark.parametrize("seed", ["negative", "imaginary", "zeros", "expanded", "wrapper"])
@pytest.mark.parametrize("output", ["h over time", "c over time", "h last", "c last"])
def test_gradients_that_come_in(seed, output, inputs_for):
    inputs = inputs_for(odd, B, T, N, D)
    named = inputs.named()

    def gradients(backend, change):
        out = inputs.scan(odd, backend)[output]
        given = torch.arange(out.numel()).to(out).view(out.shape).sin()
        if seed == "zeros":
            given = torch.zeros_like(given)
        if seed == "expanded":
            given = torch.ones(()).to(given)
        given = change(given) if change else given.expand_as(out)
        if output == "h over time":
            out, given = [out, inputs.wx], [given, torch.ones_like(inputs.wx)]
        found = torch.autograd.grad(out, list(named.values()), given, allow_unused=True)
        return dict(zip(named, found, strict=True))

    change = {
        "zeros": lambda t: torch._efficientzerotensor(t.shape, dtype=t.dtype),
        "expanded": None,
    }
    wanted = gradients("reference", None)
    got = gradients("auto", change.get(seed, KINDS.get(seed)))
    for key, value in wanted.items():
        value = torch.zeros_like(named[key]) if value is None else value
        found = torch.zeros_like(named[key]) if got[key] is None else got[key]
        found = found.inner if isinstance(found, Wrapper) else found
        torch.testing.assert_close(found, value, msg=lambda text, key=key: f"{key}: {text}")


class Seen(TorchDispatchMode):
    """Writes down the operators that it sees."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_the_operators(inputs_for):
    inputs = inputs_for(odd, B, T, N, D)
    wanted = outputs_and_gradients(inputs)
    with Seen() as seen:
        got = outputs_and_gradients(inputs)
    assert "rnnc.call.default" in seen.names
    assert "rnnc.call_backward.default" in seen.names
    check_close(got, wanted)
    out = inputs.scan(odd, "auto")["h last"]
    with Seen() as seen:
        torch.autograd.grad(out.sum(), inputs.wx)
    assert "rnnc.call_backward.default" in seen.names


def test_a_function_mode_sees_the_operator_and_a_default_device_costs_nothing(inputs_for):
    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    names: list[str] = []
    inputs = inputs_for(odd, B, T, N, D)
    wanted = inputs.scan(odd, "auto")
    with Functions():
        check_close(inputs.scan(odd, "auto"), wanted)
    assert any("rnnc.call" in name for name in names)
    calls = []
    operator = rnnc.runtime.run.operator
    original = operator.call_op
    operator.call_op = lambda *a: calls.append(a) or original(*a)
    try:
        with torch.device("cpu"):
            check_close(inputs.scan(odd, "auto"), wanted)
    finally:
        operator.call_op = original
    assert not calls


def test_fake_mode_and_meta_outputs(inputs_for):
    inputs = inputs_for(odd, B, T, N, D, requires_grad=False)
    with FakeTensorMode(allow_non_fake_inputs=True):
        out = inputs.scan(odd, "auto")
    assert all(isinstance(v, torch._subclasses.FakeTensor) for v in out.values())
    assert {k: tuple(v.shape) for k, v in out.items()}["h over time"] == (B, T, N, D)


def test_the_flop_counter_counts_recurrent_products(inputs_for):
    inputs = inputs_for(odd, B, T, N, D)
    once = 2 * B * T * N * D * D  # one dense pair
    with FlopCounterMode(display=False) as counter:
        out = inputs.scan(odd, "auto")
    assert counter.get_total_flops() == once
    with counter:
        sum(v.sum() for v in out.values()).backward()
    assert counter.get_total_flops() == 2 * once  # the mode begins anew
    linear = rnnc.RNN(rnnc.cells.lstm, 4, 8)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        linear(torch.randn(T, B, 4))
    assert counter.get_total_flops() == 2 * T * B * 4 * 8 * 4 + 2 * T * B * 8 * 8 * 4


def test_the_profiler_shows_the_kernels(inputs_for):
    inputs = inputs_for(odd, B, T, N, D)
    for context in (torch.enable_grad, torch.no_grad):
        with context(), torch.profiler.profile() as profile:
            out = inputs.scan(odd, "auto")["h last"].sum()
            if out.requires_grad:
                out.backward()
        keys = {event.key for event in profile.key_averages()}
        assert "rnnc::scan" in keys
        assert ("rnnc::scan_backward" in keys) == out.requires_grad


def test_the_operators_refuse_what_their_kernels_would_misread(inputs_for, scan_call):
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, B, T, N, D, requires_grad=False)
    tensors, text = scan_call(cell, inputs)
    wx, h, _, R, b = tensors
    out = call_op(tensors, text)
    for place, bad in (
        (0, wx[:, :, :, :, :3]),
        (1, h[:1]),
        (3, R[:, :, :2]),
        (3, R.float()),
        (4, b[:1]),
    ):
        with pytest.raises(rnnc.TensorError):
            call_op([*tensors[:place], bad, *tensors[place + 1 :]], text)
    for wrong in (tensors[:-1], [*tensors, b]):
        with pytest.raises(rnnc.TensorError):
            call_op(wrong, text)
    seed = torch.randn_like(out[0])
    results = [*out[:2], out[-1]]
    backward = [[seed, None, None, None], tensors[1:], results, [True] * len(tensors), text]
    wanted = call_backward_op(*backward)
    for place, bad in (
        (0, [seed[:1], None, None, None]),
        (0, [seed]),
        (0, [seed.float(), None, None, None]),
        (0, [seed, None, seed, None]),
        (1, [*tensors[1:3], R[:1], b]),
        (1, [h[:1], *tensors[2:]]),
        (1, tensors[2:]),
        (2, [out[0][:2], *results[1:]]),
        (2, [out[0], out[1].float(), out[-1]]),
        (2, [*results[:2], out[-1][..., :2]]),
        (2, [*results[:2], out[-1].float()]),
        (2, [*results[:2], out[-1].new_empty(0)]),
    ):
        with pytest.raises(rnnc.TensorError):
            call_backward_op(*backward[:place], bad, *backward[place + 1 :])
    spread = [torch.stack([t, t], -1)[..., 0] for t in (*results, R)]
    again = call_backward_op(backward[0], [*tensors[1:3], spread[3], b], spread[:3], *backward[3:])
    for found, right in zip(again, wanted, strict=True):
        torch.testing.assert_close(found, right)


def test_a_backward_that_reads_no_state(inputs_for):
    @rnnc.cell
    def integrator(h: State, *, a: Gate = gate(recurrent=False)):
        """Its backward reads no state."""
        return 0.5 * h + a

    inputs = inputs_for(integrator, B, T, N, D)
    _, (last,) = rnnc.scan(integrator, inputs.wx, b=inputs.b, states=inputs.states)
    (d_wx,) = torch.autograd.grad(last.sum(), inputs.wx)
    assert torch.equal(d_wx[0, :, 0, 0, 0], 0.5 ** torch.arange(T - 1, -1, -1).double())
