"""What padding holds changes no result: calls of modules with NaN in it and with numbers."""

from __future__ import annotations

import random

import pytest
import rnnc
import torch
from rnnc import Gate, Input, Param, State, exp, sigmoid, tanh, where

B, T, INPUT, HIDDEN = 5, 7, 3, 4
NAN, DTYPE = float("nan"), torch.float64


@rnnc.cell
def timed(z: Gate, n: Gate, h: State, s: State, dt: Input, m: Input, w: Param):
    """Reads a number per row and step, and one per unit."""
    a = exp(-dt * dt)
    h = where(m > 0, a * h + (1 - a) * sigmoid(z) * tanh(n + w * s), h)
    return h, 0.9 * s + 0.1 * h * m


OPTIONS = (
    {"bidirectional": True, "num_layers": 2, "dropout": 0.3, "batch_first": True},
    {"num_layers": 2, "all_states": True},
    {"num_layers": 2, "proj_size": 3},
    {"bidirectional": True, "all_states": True, "batch_first": True},
)


class Call:
    """A call of a module, whose padding may hold anything.

    Args:
        cell: the cell.
        kind: of the reset values: `"init"`, `"shared"`, `"rows"` or `"stored"`.
        all_states: as in the call.
        options: of the module.
    """

    def __init__(self, cell, kind, all_states=False, **options):
        self.rnn = rnn = rnnc.RNN(cell, INPUT, HIDDEN, dtype=DTYPE, **options)
        self.all_states, self.kind = all_states, kind
        parts = rnn.num_layers * (1 + rnn.bidirectional)
        widths = [rnn.proj_size or HIDDEN, *[HIDDEN] * (len(cell.states) - 1)]
        self.lengths = torch.tensor([T, 0, 3, 1, 5])[torch.randperm(B)]
        self.pad = torch.arange(T) >= self.lengths[:, None]
        self.reset = torch.rand(B, T) < random.choice((0.2, 0.5, 1.1))
        outer = {"shared": (parts,), "rows": (parts, B), "stored": (parts, B, T)}.get(kind)
        self.values = outer and [torch.rand(*outer, width, dtype=DTYPE) for width in widths]
        self.states = [torch.rand(parts, B, width, dtype=DTYPE) for width in widths]
        self.x = torch.randn(B, T, INPUT, dtype=DTYPE)
        drawn = {"dt": torch.rand(B, T, dtype=DTYPE), "m": torch.randn(B, T, HIDDEN, dtype=DTYPE)}
        self.inputs = drawn if cell.inputs else None

    def laid(self, tensor, axis=0):
        """A tensor of batch rows and steps, in the module's layout."""
        return tensor if self.rnn.batch_first else tensor.transpose(axis, axis + 1)

    def padded(self, tensor, fill):
        where_padded = self.pad.view(B, T, *(1,) * (tensor.ndim - 2))
        return self.laid(tensor.masked_fill(where_padded, fill)).detach().requires_grad_()

    def run(self, fill):
        """All results, and all gradients by name."""
        leaves = {"x": self.padded(self.x, fill)} | dict(self.rnn.named_parameters())
        states = [state.clone().requires_grad_() for state in self.states]
        leaves |= {f"state {i}": state for i, state in enumerate(states)}
        values = self.values
        if self.kind == "stored":
            unread = (~self.reset | self.pad)[None, ..., None]
            values = [self.laid(value.masked_fill(unread, fill), 1) for value in values]
        elif values:
            values = [value.clone().requires_grad_() for value in values]
            leaves |= {f"reset to {i}": value for i, value in enumerate(values)}
        inputs = self.inputs and {k: self.padded(v, fill) for k, v in self.inputs.items()}
        leaves |= {f"input {name}": value for name, value in (inputs or {}).items()}
        reset = self.reset.masked_fill(self.pad, fill != fill)
        torch.manual_seed(0)  # of dropout
        y, last, *every = self.rnn(
            leaves["x"], states, lengths=self.lengths, reset=self.laid(reset), reset_to=values,
            all_states=self.all_states, inputs=inputs,
        )  # fmt: skip
        over_time = [y, *(state for each in every for state in each.values())]
        made = torch.Generator().manual_seed(1)
        found = [*over_time, *last]
        seeds = [torch.randn(r.shape, generator=made, dtype=DTYPE) for r in found]
        padding = self.laid(self.pad)[..., None]
        seeds = [s.masked_fill(padding, fill) for s in seeds[: len(over_time)]] + seeds[
            len(over_time) :
        ]
        gradients = torch.autograd.grad(found, list(leaves.values()), seeds, materialize_grads=True)
        results = {f"result {i}": result for i, result in enumerate(found)}
        return results | {f"d {n}": d for n, d in zip(leaves, gradients, strict=True)}


@pytest.mark.parametrize("cell", [rnnc.cells.lstm, rnnc.cells.gru, timed], ids=lambda c: c.name)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o))
def test_what_padding_holds_changes_no_result(options, cell, poisoned):
    if "proj_size" in options and cell is not rnnc.cells.lstm:
        options = {"num_layers": 2}  # the others read their output unprojected too
    for kind in ("init", "shared", "rows", "stored"):
        call = Call(cell, kind, **options)
        wanted, got = call.run(0.5), call.run(NAN)
        for name, value in wanted.items():
            torch.testing.assert_close(got[name], value, msg=lambda m, n=name: f"{n}: {m}")
        assert not got["d x"][call.laid(call.pad)].any()
