"""Lengths and resets of a module, against calls of each part of each row."""

from __future__ import annotations

from itertools import pairwise

import pytest
import rnnc
import torch
from rnnc.runtime.run import route

NAN = float("nan")
B, T, INPUT, HIDDEN = 4, 6, 3, 4
LENGTHS = (6, 0, 4, 5)
RESETS = ([0, 3], [2], [1, 4, 5], [])
CELL = rnnc.cells.lstm


def module(**options):
    return rnnc.RNN(CELL, INPUT, HIDDEN, dtype=torch.float64, **options)


class Call:
    """A call of a module, with NaN in all padding."""

    def __init__(self, rnn, kind="init"):
        self.rnn, self.kind = rnn, kind
        self.parts = parts = rnn.num_layers * (2 if rnn.bidirectional else 1)
        self.steps = torch.arange(T)[None] >= torch.tensor(LENGTHS)[:, None]
        self.x = torch.randn(B, T, INPUT, dtype=torch.float64, requires_grad=True)
        self.states = [self.draw(parts, B, HIDDEN) for _ in CELL.states]
        shape = {"init": None, "shared": (parts,), "rows": (parts, B), "stored": (parts, B, T)}
        size = shape[kind]
        self.values = None if size is None else [self.draw(*size, HIDDEN) for _ in CELL.states]
        self.reset = torch.zeros(B, T, dtype=torch.bool)
        for row, steps in enumerate(RESETS):
            self.reset[row, steps] = True

    def draw(self, *size):
        return torch.randn(size, dtype=torch.float64, requires_grad=True)

    def leaves(self):
        values = self.values if self.values and self.kind != "stored" else []
        named = {"x": self.x} | dict(self.rnn.named_parameters())
        named |= {f"states[{i}]": s for i, s in enumerate(self.states)}
        return named | {f"reset_to[{i}]": v for i, v in enumerate(values)}

    def run(self):
        rnn, values = self.rnn, self.values
        padded = self.x.masked_fill(self.steps[:, :, None], NAN)
        x, reset = padded, self.reset
        if not rnn.batch_first:
            x, reset = x.transpose(0, 1), reset.t()
            if self.kind == "stored":
                values = [v.transpose(1, 2) for v in values]
        lengths = torch.tensor(LENGTHS)
        y, last = rnn(x, self.states, lengths=lengths, reset=reset, reset_to=values)
        return (y if rnn.batch_first else y.transpose(0, 1)), last

    def loops(self):
        rows = [self._row(row) for row in range(B)]
        y = torch.stack([row[0] for row in rows])
        return y, tuple(torch.stack(s, 1) for s in zip(*[row[1] for row in rows], strict=True))

    def _row(self, row):
        rnn, length = self.rnn, LENGTHS[row]
        states = [s[:, row] for s in self.states]
        features = HIDDEN * (2 if rnn.bidirectional else 1)
        zeros = self.x.new_zeros(T - length, features)
        if not length:
            return zeros, states
        cuts = [0, *[t for t in RESETS[row] if 0 < t < length], length]
        found, ends = [], None
        for begin, end in pairwise(cuts):
            ahead = self._value(row, begin, states) if begin in RESETS[row] else states
            behind = self._value(row, end, states) if end < length else states
            first = ahead if not rnn.bidirectional else self._both(ahead, behind)
            y, last = rnn(self.x[row, begin:end], first)
            found.append(y)
            ends = (
                last
                if ends is None
                else [self._both(n, o) for n, o in zip(last, ends, strict=True)]
            )
        return torch.cat([*found, zeros]), ends

    def _both(self, ahead, behind):
        """Of each layer the forward direction of one and the reverse one of the other."""
        if isinstance(ahead, list | tuple):
            return [self._both(a, b) for a, b in zip(ahead, behind, strict=True)]
        if not self.rnn.bidirectional:
            return ahead
        return torch.stack([ahead[0::2], behind[1::2]], 1).flatten(0, 1)

    def _value(self, row, step, like):
        if self.values is None:
            return [
                torch.full_like(s, spec.init) for s, spec in zip(like, CELL.states, strict=True)
            ]
        place = {"shared": (), "rows": (slice(None), row), "stored": (slice(None), row, step)}
        return [v[place[self.kind]] for v in self.values]


def check(call):
    seed = torch.randn(B, T, HIDDEN * (2 if call.rnn.bidirectional else 1), dtype=torch.float64)
    seeds = [
        seed.masked_fill(call.steps[:, :, None], NAN),
        seed.masked_fill(call.steps[:, :, None], 0),
    ]
    d_last = [torch.randn_like(s) for s in call.states]
    named, results = call.leaves(), []
    for run, own in ((call.run, seeds[0]), (call.loops, seeds[1])):
        y, last = run()
        gradients = torch.autograd.grad((y, *last), list(named.values()), (own, *d_last))
        found = {"y": y} | {f"last[{i}]": s for i, s in enumerate(last)}
        results.append(found | {f"d_{n}": d for n, d in zip(named, gradients, strict=True)})
    for name, wanted in results[1].items():
        torch.testing.assert_close(results[0][name], wanted, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("kind", ["init", "shared", "rows", "stored"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "batch_first": True}])
def test_all_layers_and_directions(options, kind):
    check(Call(module(num_layers=2, heads=2, backend="reference", **options), kind))


@pytest.mark.parametrize("kind", ["init", "shared", "rows", "stored"])
def test_by_kernels(kind, monkeypatch):
    """As one node of autograd, whose gradients may also be followed."""
    monkeypatch.setattr(route, "run_reference", lambda *_: pytest.fail("layer by layer"))
    options = {"heads": 2, "batch_first": True} if kind in ("shared", "stored") else {}
    call = Call(module(num_layers=2, bidirectional=True, **options), kind)
    check(call)
    if kind == "shared":
        monkeypatch.undo()
        named, found = call.leaves(), []
        for followed in (False, True):
            y, last = call.run()
            total = y.square().sum() + sum(s.sum() for s in last)
            found.append(torch.autograd.grad(total, list(named.values()), create_graph=followed))
        for name, got, wanted in zip(named, *found, strict=True):
            torch.testing.assert_close(got, wanted, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["shared", "rows", "stored"])
def test_a_reset_at_the_first_step_of_a_call_without_states(kind, bidirectional):
    """States that are zero by default are not zero after it."""
    call = Call(module(bidirectional=bidirectional), kind)
    twin = module(bidirectional=bidirectional, backend="reference")
    twin.load_state_dict(call.rnn.state_dict())
    values = [v.transpose(1, 2) if v.ndim == 4 else v for v in call.values]
    found = []
    for rnn in (call.rnn, twin):
        x = call.x.detach().transpose(0, 1).clone()
        y, _ = rnn(x, reset=call.reset.t(), reset_to=values)
        gradients = torch.autograd.grad(y.square().sum(), list(rnn.parameters()))
        found.append(dict(zip(dict(rnn.named_parameters()), gradients, strict=True)))
    torch.testing.assert_close(*found)


def test_lengths_of_all_steps_and_calls_that_come_again():
    rnn = module(num_layers=2)
    x, every = torch.randn(T, B, INPUT, dtype=torch.float64), torch.full((B,), T)
    wanted, _ = rnn(x)
    for _ in range(4):  # the third has passed all checks before
        found, _ = rnn(x, lengths=every)
        assert torch.equal(found, wanted)
    shorter, _ = rnn(x, lengths=every - 2)
    assert torch.equal(shorter[:-2], wanted[:-2])
    assert not shorter[-2:].any()
    with pytest.raises(rnnc.TensorError, match="a length of 7"):
        rnn(x, lengths=every + 1)


def test_dropout_and_saved_states_leave_padding_alone():
    rnn = module(num_layers=2, dropout=0.5, save="states")
    call = Call(rnn)
    y, last = call.run()
    assert torch.equal(y[call.steps], torch.zeros_like(y[call.steps]))
    gradients = torch.autograd.grad((y, *last), list(call.leaves().values()), (y, *last))
    assert all(d.isfinite().all() for d in gradients)


def test_one_sequence():
    rnn, call = module(num_layers=2), Call(module())
    x = call.x.detach()[0]
    values = [torch.randn(2, HIDDEN, dtype=torch.float64) for _ in CELL.states]
    stored = [v[:, None].expand(2, T, HIDDEN) for v in values]
    reset = call.reset[0]
    wanted = rnn(
        x[:, None], lengths=torch.tensor([5]), reset=reset[:, None], reset_to=values
    )  # fmt: skip
    for given in (values, stored):
        y, last = rnn(x, lengths=torch.tensor(5), reset=reset, reset_to=given)
        assert torch.equal(y, wanted[0][:, 0])
        assert torch.equal(last[0], wanted[1][0][:, 0])


def test_under_a_compiler():
    torch._dynamo.reset()
    rnn = module(num_layers=2)
    call = Call(rnn, "shared")
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    call.rnn, wanted = rnn, call.run()
    arguments = call.x.transpose(0, 1), call.states
    options = {"lengths": torch.tensor(LENGTHS), "reset": call.reset.t(), "reset_to": call.values}
    got = compiled(*arguments, **options)
    for one, other in zip((got[0].transpose(0, 1), *got[1]), (wanted[0], *wanted[1]), strict=True):
        # A product of torch adds in another order where x needs a gradient.
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["shared", "rows"])
def test_under_a_compiler_that_knows_no_size(kind):
    torch._dynamo.reset()
    rnn = module(batch_first=True)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager", dynamic=True)
    call = Call(rnn, kind)
    for rows in (B, B - 1):
        values = call.values if kind == "shared" else [value[:, :rows] for value in call.values]
        arguments = call.x[:rows], [state[:, :rows] for state in call.states]
        options = {"lengths": torch.tensor(LENGTHS[:rows]), "reset": call.reset[:rows]}
        got = compiled(*arguments, **options, reset_to=values)
        wanted = rnn(*arguments, **options, reset_to=values)
        for one, other in zip((got[0], *got[1]), (wanted[0], *wanted[1]), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["init", "shared", "rows"])
def test_a_step(kind):
    rnn = module(num_layers=2)
    call = Call(rnn, kind)
    reset = torch.tensor([True, False, True, False])
    states = [torch.where(reset[:, None], NAN, s) for s in call.states]
    x = call.x[:, 0]
    got = rnn.step(x, states, reset=reset, reset_to=call.values)
    clean = call.values or [torch.zeros_like(s) for s in call.states]
    clean = [v[:, None] if v.ndim == 2 else v for v in clean]
    wanted = rnn.step(
        x, [torch.where(reset[:, None], v, s) for v, s in zip(clean, call.states, strict=True)]
    )
    assert torch.equal(got[0], wanted[0])
    (d_state,) = torch.autograd.grad(got[0].sum(), call.states[0])
    assert not d_state[:, reset].any()
    assert d_state[:, ~reset].all()
    one = rnn.step(x[0], reset=reset[0], reset_to=None if kind != "shared" else call.values)
    other = rnn.step(x[:1], reset=reset[:1], reset_to=None if kind != "shared" else call.values)
    assert torch.equal(one[0], other[0][0])


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("lengths", {"lengths": torch.tensor([1, 2])}),
        ("lengths", {"lengths": torch.tensor([1, 2, 7, 1])}),
        ("reset", {"reset": torch.zeros(B, T, dtype=torch.bool)}),
        ("reset_to", {"reset_to": (torch.zeros(1, HIDDEN),) * 2}),
        (
            "reset_to[h]",
            {"reset": torch.zeros(T, B).bool(), "reset_to": (torch.zeros(HIDDEN),) * 2},
        ),
    ],
)
def test_what_does_not_fit(argument, options):
    x = torch.zeros(T, B, INPUT, dtype=torch.float64)
    with pytest.raises(rnnc.TensorError) as error:
        module()(x, **options)
    assert error.value.argument == argument
    if argument.startswith("reset"):
        with pytest.raises(rnnc.TensorError) as error:
            module().step(x[0], **{k: v for k, v in options.items() if k != "lengths"})
        assert error.value.argument.startswith("reset")


@pytest.mark.parametrize("batch_first", [False, True])
def test_stored_values_in_the_other_layout_are_refused(batch_first):
    rnn, outer = module(batch_first=batch_first), (B, T) if batch_first else (T, B)
    x = torch.zeros(*outer, INPUT, dtype=torch.float64)
    other = [x.new_zeros(1, *outer[::-1], HIDDEN) for _ in CELL.states]
    with pytest.raises(rnnc.TensorError) as error:
        rnn(x, reset=torch.ones(outer, dtype=torch.bool), reset_to=other)
    assert f"shape {(1, *outer[::-1], HIDDEN)}" in error.value.found
    layout = "(L, B, T, features)" if batch_first else "(L, T, B, features)"
    axes = f"(L, features), (L, B, features), {layout} with L = layers * directions"
    assert error.value.wanted.endswith(axes)
