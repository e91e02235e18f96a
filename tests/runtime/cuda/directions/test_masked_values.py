"""Both directions of a layer in one launch, with lengths and resets: kernels as C++ on the CPU."""

from __future__ import annotations

import pytest
import rnnc
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

NAN = float("nan")
# B, T and D of each kind of plan: several tiles of rows, and blocks that share a head.
SIZES = {"block": (9, 37, 24), "cluster": (9, 35, 72), "grid": (9, 5, 72), "alternating": (9, 5, 8)}
FORMS = ("init", "shared", "rows", "stored")
INPUT, LAYERS = 5, 2
slow = pytest.mark.slow  # half a minute each, most of it in the C++ compiler


class Call:
    """A call of a module whose padding holds NaN, and the gradients of its results."""

    def __init__(self, cell, sizes, form, dtype=torch.float32, lengths=True, resets=True):
        batch, steps, dim = sizes
        options = {"num_layers": LAYERS, "bidirectional": True, "dtype": dtype}
        self.rnn = rnnc.RNN(cell, INPUT, dim, precision="ieee", **options)
        parts, hidden = 2 * LAYERS, dim
        self.lengths = self.reset = self.values = None
        pad = torch.zeros(steps, batch, dtype=torch.bool)
        if lengths:
            self.lengths = torch.randint(0, steps + 1, (batch,))
            self.lengths[torch.randperm(batch)[:3]] = torch.tensor([0, 1, steps])
            pad = torch.arange(steps)[:, None] >= self.lengths
        if resets:
            self.reset = torch.rand(steps, batch) < 0.3
        shape = {"shared": (), "rows": (batch,), "stored": (steps, batch)}.get(form)
        if resets and shape is not None:
            self.values = [torch.rand(parts, *shape, hidden).to(dtype) + 0.5 for _ in cell.states]
            if form == "stored":
                unread = (~self.reset | pad)[..., None]
                self.values = [v.masked_fill(unread, NAN) for v in self.values]
        self.learned = form in ("shared", "rows")
        self.x = torch.randn(steps, batch, INPUT).to(dtype).masked_fill(pad[..., None], NAN)
        states = [torch.rand(parts, batch, hidden).to(dtype) + 0.5 for _ in cell.states]
        self.states = states
        seed = torch.randn(steps, batch, 2 * hidden).to(dtype).masked_fill(pad[..., None], NAN)
        self.seeds = [seed, *map(torch.randn_like, states)]

    def run(self, backend, double=False, **choice):
        """All results and gradients by name."""
        rnn = rnnc.RNN(
            self.rnn.cell, INPUT, self.rnn.hidden_size, num_layers=LAYERS, bidirectional=True,
            backend=backend, dtype=torch.float64 if double else self.x.dtype, precision="ieee",
            **choice,
        )  # fmt: skip
        rnn.load_state_dict(self.rnn.state_dict())

        def leaf(tensor, needs=True):
            tensor = tensor.double() if double else tensor
            return tensor.detach().clone().requires_grad_(needs)

        x, states = leaf(self.x), [leaf(s) for s in self.states]
        values = self.values and [leaf(v, self.learned) for v in self.values]
        given = {"lengths": self.lengths, "reset": self.reset, "reset_to": values}
        y, last = rnn(x, states, **given)
        found = {"y": y} | {f"last {i}": s for i, s in enumerate(last)}
        leaves = {"x": x} | dict(rnn.named_parameters())
        leaves |= {f"states {i}": s for i, s in enumerate(states)}
        if values and self.learned:
            leaves |= {f"reset to {i}": v for i, v in enumerate(values)}
        seeds = [leaf(s, False) for s in self.seeds]
        gradients = torch.autograd.grad(list(found.values()), list(leaves.values()), seeds)
        found |= {f"d {n}": g for n, g in zip(leaves, gradients, strict=True)}
        return {name: value.detach() for name, value in found.items()}


def check(call, launched, **choice):
    """The kernels against torch's loop in float64; each layer is a launch per direction of time."""
    wanted = call.run("reference", double=True)
    got = call.run("simulated", **choice)
    assert [plan.reverse for plan in launched] == ["half"] * len(launched)
    bound = 3e-5 if call.x.dtype == torch.float32 else 4e-2
    for name, value in wanted.items():
        assert not got[name].isnan().any(), name
        error = (got[name].double() - value).norm() / max(value.norm(), 1e-3)
        assert error < bound, f"{name}: {error}"


CASES = [
    pytest.param(kind, form, marks=() if (kind, form) == ("block", "rows") else slow)
    for kind in ("block", "cluster", "grid")
    for form in FORMS
]


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_lengths_and_resets(kind, form, emulated_blocks, poisoned):
    call = Call(rnnc.cells.lstm, SIZES[kind], form)
    save = ("gates", "states")[FORMS.index(form) % 2]
    check(call, emulated_blocks, variant=kind, save=save)
    assert {plan.kind for plan in emulated_blocks} == {kind}
