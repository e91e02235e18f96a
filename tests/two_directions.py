"""Both directions of a layer in one call, whose heads come first of one and then of the other."""

from __future__ import annotations

import rnnc
import torch
from rnnc.runtime.call import Choice, call_of
from rnnc.runtime.targets import TARGETS
from rnnc.runtime.tensors import ScanInputs, saved_of
from torch import Tensor


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
        call = call_of(self.cell.text, backend, True, (True,) * count, choice, False)
        with torch.no_grad():
            forward = target.forward(call, self.inputs)
            again = target.computes_gates_again(save)
            saved = saved_of(self.inputs, forward, again)
            got = target.backward(call, saved, self.d_states, self.d_last, donated=False)
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
