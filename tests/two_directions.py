"""Both directions of a layer in one call, whose heads come first of one and then of the other."""

from __future__ import annotations

import rnnc
import torch
from rnnc.runtime.call.layer_call import Choice, layer_call_of
from rnnc.runtime.call.requests import LayerBackward
from rnnc.runtime.call.tensors import ScanInputs, saved_of
from rnnc.runtime.targets.registry import TARGETS
from torch import Tensor

NAN = float("nan")
FORMS = ("init", "shared", "rows", "stored")  # of the values after a reset


class Drawn:
    """The inputs of a call and the gradients of its results: at all steps, and last."""

    def __init__(self, cell, sizes, dtype, device="cpu") -> None:
        batch, steps, heads, dim = sizes

        def draw(*size: int, scale: float = 0.5) -> Tensor:
            drawn = torch.randn(size, dtype=torch.float64, device=device) * scale
            return drawn.to(dtype)

        dense, diagonal = len(cell.dense_pairs), len(cell.diagonal_pairs)
        bias = len(cell.bias_gates)
        self.cell = cell
        self.inputs = ScanInputs(
            # Time first in memory, as a module has it.
            draw(steps, batch, heads, dim, len(cell.input_gates)).transpose(0, 1),
            draw(dense, heads, dim, dim, scale=0.8 / dim**0.5) if dense else None,
            draw(bias, heads, dim) if bias else None,
            [draw(batch, heads, dim).abs() + 0.5 for _ in cell.states],
            draw(diagonal, heads, dim) if diagonal else None,
            [draw(heads, dim) for _ in cell.params],
        )
        self.d_states = [draw(steps, batch, heads, dim) for _ in cell.states]
        self.d_last = [draw(batch, heads, dim) for _ in cell.states]

    def half(self, number: int) -> Drawn:
        """The heads of one direction."""
        found = Drawn.__new__(Drawn)
        i = self.inputs

        def part(tensor: Tensor | None, axis: int) -> Tensor | None:
            return None if tensor is None else tensor.chunk(2, axis)[number]

        found.cell = self.cell
        found.inputs = ScanInputs(
            part(i.wx, 2),
            part(i.R, 1),
            part(i.b, 1),
            [part(s, 1) for s in i.initial_states],
            part(i.R_diag, 1),
            [part(p, 0) for p in i.params],
        )
        found.d_states = [part(d, 2) for d in self.d_states]
        found.d_last = [part(d, 1) for d in self.d_last]
        return found

    def run(self, backend: str, reverse, variant="auto", save="gates") -> dict[str, Tensor]:
        """The results of both passes of a target, by name, with heads as the first axis."""
        choice, count = Choice(variant, save, "ieee", reverse), len(self.cell.states)
        target = TARGETS[backend]
        layer_call = layer_call_of(self.cell.text, backend, True, (True,) * count, choice, False)
        with torch.no_grad():
            forward = target.forward(layer_call, self.inputs)
            again = target.computes_gates_again(save)
            saved = saved_of(self.inputs, forward, again)
            got = target.backward(layer_call, LayerBackward(saved, self.d_states, self.d_last))
        found = {"d_wx": got.d_wx.transpose(0, 2), "d_R": got.d_R.transpose(0, 1)}
        found |= {"d_b": got.d_b.transpose(0, 1), "d_R_diag": got.d_R_diag.transpose(0, 1)}
        found["d_params"] = got.d_params.transpose(0, 1)
        for i in range(count):
            found[f"state {i}"] = forward.states[i].transpose(0, 2)
            found[f"last {i}"] = forward.last[i].transpose(0, 1)
            found[f"d_initial {i}"] = got.d_initial_states[i].transpose(0, 1)
        return found


def check_both(name: str, sizes, dtype, backend: str, device="cpu", **options) -> None:
    """One call of twice the heads gives the bits of a call of each direction.

    Args:
        name: of the cell.
        sizes: B, T, heads of both directions, and D.
        dtype: of the tensors.
        backend: a target's name.
        device: of the tensors.
        **options: variant and save.
    """
    drawn = Drawn(rnnc.cells.get(name), sizes, dtype, device)
    both = drawn.run(backend, "half", **options)
    each = [
        drawn.half(i).run(backend, reverse, **options) for i, reverse in enumerate((False, True))
    ]
    # A library computes the gates again: it may add up products of more heads in another order.
    again = TARGETS[backend].computes_gates_again(options.get("save", "gates"))
    for key, value in both.items():
        wanted = torch.cat([found[key] for found in each])
        if again and dtype == torch.float32:
            torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5, msg=key)
        else:
            assert torch.equal(value, wanted), key


class RaggedCall:
    """A call of a module of both directions, whose padding holds NaN, and gradients of its results.

    Args:
        cell: of the module.
        sizes: B, T, the size of the input, heads and D.
        form: of the values after a reset, one of `FORMS`; None for no resets.
        dtype: of the tensors.
        device: of the tensors.
        lengths: whether rows end.
        layers: of the module.
    """

    def __init__(
        self, cell, sizes, form, dtype=torch.float32, device="cpu", lengths=True, layers=2
    ) -> None:
        batch, steps, features, heads, dim = sizes
        on = {"dtype": dtype, "device": device}
        self.kind = cell, features, heads * dim
        self.options = {"heads": heads, "num_layers": layers, "bidirectional": True}
        self.options |= {"precision": "ieee", "device": device}
        self.weights = rnnc.RNN(*self.kind, **self.options, dtype=dtype).state_dict()
        parts, hidden = 2 * layers, heads * dim
        self.lengths = self.reset = self.values = None
        pad = torch.zeros(steps, batch, dtype=torch.bool, device=device)
        if lengths:
            self.lengths = torch.randint(0, steps + 1, (batch,), device=device)
            few = torch.tensor([0, 1, steps], device=device)
            self.lengths[torch.randperm(batch, device=device)[:3]] = few
            pad = torch.arange(steps, device=device)[:, None] >= self.lengths
        if form is not None:
            self.reset = torch.rand(steps, batch, device=device) < 0.3
        shape = {"shared": (), "rows": (batch,), "stored": (steps, batch)}.get(form)
        if shape is not None:
            self.values = [torch.rand(parts, *shape, hidden, **on) + 0.5 for _ in cell.states]
        if form == "stored":
            unread = (~self.reset | pad)[..., None]
            self.values = [v.masked_fill(unread, NAN) for v in self.values]
        self.learned = form in ("shared", "rows")
        self.x = torch.randn(steps, batch, features, **on).masked_fill(pad[..., None], NAN)
        self.states = [torch.rand(parts, batch, hidden, **on) + 0.5 for _ in cell.states]
        seed = torch.randn(steps, batch, 2 * hidden, **on).masked_fill(pad[..., None], NAN)
        self.seeds = [seed, *map(torch.randn_like, self.states)]

    def run(self, backend: str, double: bool = False, **choice) -> dict[str, Tensor]:
        """All results and gradients under their names.

        Args:
            backend: as for `rnnc.RNN`.
            double: whether all tensors are float64.
            **choice: variant and save.
        """
        dtype = torch.float64 if double else self.x.dtype
        rnn = rnnc.RNN(*self.kind, **self.options, backend=backend, dtype=dtype, **choice)
        rnn.load_state_dict(self.weights)

        def leaf(tensor: Tensor, needs: bool = True) -> Tensor:
            return tensor.to(dtype, copy=True).requires_grad_(needs)

        x, states = leaf(self.x), [leaf(s) for s in self.states]
        values = self.values and [leaf(v, self.learned) for v in self.values]
        given = {"lengths": self.lengths, "reset": self.reset, "reset_to": values}
        y, last = rnn(x, states, **given)
        found = {"y": y} | {f"last {i}": s for i, s in enumerate(last)}
        leaves = {"x": x} | dict(rnn.named_parameters())
        leaves |= {f"states {i}": s for i, s in enumerate(states)}
        if self.learned:
            leaves |= {f"reset to {i}": v for i, v in enumerate(values)}
        seeds = [leaf(s, False) for s in self.seeds]
        gradients = torch.autograd.grad(list(found.values()), list(leaves.values()), seeds)
        found |= {f"d {n}": g for n, g in zip(leaves, gradients, strict=True)}
        return {name: value.detach() for name, value in found.items()}
