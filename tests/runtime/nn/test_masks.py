"""Lengths and resets of modules of `rnnc.nn`, which torch's modules do not have."""

from __future__ import annotations

from itertools import pairwise

import pytest
import rnnc
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

T, B = 6, 4
LENGTHS = torch.tensor([6, 1, 4, 3])
DOUBLE = {"dtype": torch.float64}


def pair(name, **options):
    theirs = getattr(nn, name)(3, 4, 2, **options, **DOUBLE)
    ours = getattr(rnnc.nn, name)(3, 4, 2, **options, **DOUBLE)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def states_of(found):
    return found if isinstance(found, tuple) else (found,)


def check(ours, theirs, call, wanted):
    """Compare results, and gradients by name."""
    found = []
    for module, run in ((ours, call), (theirs, wanted)):
        module.zero_grad()
        y, h = run(module)
        sum((each * each.detach().cos()).sum() for each in (y, *states_of(h))).backward()
        named = {n: p.grad for n, p in module.named_parameters()}
        found.append({"y": y} | dict(enumerate(states_of(h))) | named)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "batch_first": True}])
def test_lengths(name, options):
    ours, theirs = pair(name, **options)
    first = theirs.batch_first
    x = torch.randn(T, B, 3, **DOUBLE)
    padded = x.masked_fill((torch.arange(T)[:, None] >= LENGTHS)[..., None], float("nan"))
    x, padded = (v.transpose(0, 1) if first else v for v in (x, padded))

    def packed(module):
        y, h = module(pack_padded_sequence(x, LENGTHS, first, enforce_sorted=False))
        return pad_packed_sequence(y, first)[0], h

    for _ in range(3):  # a known call is another way
        check(ours, theirs, lambda module: module(padded, lengths=LENGTHS), packed)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_resets(name):
    ours, theirs = pair(name)
    x, reset = torch.randn(T, B, 3, **DOUBLE), torch.rand(T, B) < 0.4
    values = [torch.randn(2, 4, **DOUBLE) for _ in range(2 if name == "LSTM" else 1)]

    def parts(module):
        rows = []
        for row in range(B):
            cuts = sorted({0, *reset[:, row].nonzero().flatten().tolist(), T})
            state, ys = None, []
            for begin, end in pairwise(cuts):
                if reset[begin, row]:
                    state = tuple(values) if name == "LSTM" else values[0]
                y, state = module(x[begin:end, row], state)
                ys.append(y)
            rows.append((torch.cat(ys), *states_of(state)))
        y, *h = (torch.stack(each, 1) for each in zip(*rows, strict=True))
        return y, tuple(h)

    check(ours, theirs, lambda m: m(x, reset=reset, reset_to=values), parts)


@pytest.mark.parametrize("subclasses", [True, False])
def test_under_a_compiler(subclasses):
    module = nn.LSTM(3, 4, **DOUBLE)
    rnnc.convert(module, isinstance=subclasses, force=True)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="eager", fullgraph=not subclasses)
    given = {"lengths": LENGTHS, "reset": torch.rand(T, B) < 0.4}
    x = torch.randn(T, B, 3, **DOUBLE)
    torch.testing.assert_close(compiled(x, **given), module(x, **given))


def test_what_is_refused():
    x, reset = torch.randn(T, B, 3), torch.zeros(T, B, dtype=torch.bool)
    lstm = rnnc.nn.LSTM(3, 4)
    packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    cases = [
        ("proj_size", rnnc.nn.LSTM(3, 4, proj_size=2), (x,), {"reset": reset}),
        ("float16 on cpu", rnnc.nn.LSTM(3, 4).half(), (x.half(),), {"lengths": LENGTHS}),
        ("meta", rnnc.nn.LSTM(3, 4).to("meta"), (x.to("meta"),), {"lengths": LENGTHS}),
        ("PackedSequence", lstm, (packed,), {"lengths": LENGTHS}),
        (r"shape \(4, 6\)", lstm, (x,), {"reset": reset.t()}),
        ("reset", lstm, (x,), {"reset_to": (torch.zeros(1, 4),) * 2}),
    ]
    for message, module, call, given in cases:
        with pytest.raises(rnnc.TensorError, match=message):
            module(*call, **given)
    with pytest.raises(RuntimeError, match="Expected 3, got 5"):
        lstm(torch.randn(T, B, 5), reset=reset)
