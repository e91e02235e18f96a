"""A program that is made without a device is the one that the device's calls record."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.cli import program as made
from rnnc.runtime.cuda.driver.device import describe, device_limits
from rnnc.runtime.cuda.together import issued_together
from rnnc.runtime.program.lower import lower

CASES = {
    "one layer": made.Sizes(steps=5),
    "two layers": made.Sizes(2, 64, layers=2, steps=7, batch=5),
    "both directions": made.Sizes(bidirectional=True, steps=9),
    "two streams": made.Sizes(head_dim=640, batch=64, bidirectional=True, steps=30),
    "float32": made.Sizes(dtype="float32", layers=2, steps=6),
    "grid": made.Sizes(head_dim=2048, steps=4),
    "alternating": made.Sizes(variant="alternating", layers=2, steps=8),
}


def kind(op):
    """What an operation is, without the names of its memory."""
    names = "size", "grid", "struct", "steps", "writes", "waits"
    own = [getattr(op, name, None) for name in names]
    kernel, product = getattr(op, "kernel", None), getattr(op, "kind", None)
    return (
        type(op).__name__,
        *own,
        kernel and (kernel.name, kernel.threads, kernel.shared),
        product and product[:4],
        [kind(each) for each in getattr(op, "ops", ())],
    )


@pytest.mark.parametrize("cell", [rnnc.cells.lstm, rnnc.cells.gru], ids=lambda cell: cell.name)
@pytest.mark.parametrize("case", CASES)
def test_a_recorded_program_is_the_lowered_one(case, cell, monkeypatch):
    sizes, limits, wanted = CASES[case], device_limits(0), []

    def noted(*given):
        program, results = lower(*given)
        wanted.append(program)
        return program, results

    monkeypatch.setattr(made, "limits_of", lambda _: limits)
    monkeypatch.setattr(made, "lower", noted)
    made.program_of(cell, sizes, "")
    assert describe(limits) >= 100
    rnn = made.module_of(cell, sizes, "cuda")
    shape, dtype = (sizes.steps, sizes.batch, rnn.input_size), getattr(torch, sizes.dtype)
    for _ in range(4):
        x = torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True)
        rnn.zero_grad()
        y, _ = rnn(x)
        y.backward(torch.ones_like(y))
    (entry,) = rnn._known_calls._entries.values()
    programs = [known.program for known in entry.replays._known.values()]
    assert len(programs) == 2
    for program, other in zip(programs, wanted, strict=True):
        assert list(map(kind, program.ops)) == list(map(kind, issued_together(other.ops)))
