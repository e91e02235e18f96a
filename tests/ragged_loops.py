"""The second statement of lengths and resets: each row by itself, cut at its resets."""

from __future__ import annotations

from itertools import pairwise

import rnnc
import torch

NAN = float("nan")


class Case:
    """A call with lengths and resets, whose padding holds NaN.

    Args:
        cell: the cell.
        inputs: its tensors.
        lengths: of each row.
        resets: for each row, the steps before which it resets; they may lie in the padding.
        kind: of the reset values: `"init"`, `"shared"` (N, D), `"rows"` (B, N, D) or `"stored"`
            (B, T, N, D).
        reverse: whether the cell runs backwards in time.
    """

    def __init__(self, cell, inputs, lengths, resets, kind="init", reverse=False):
        self.cell, self.inputs, self.reverse, self.kind = cell, inputs, reverse, kind
        self.lengths, self.resets = lengths, resets
        wx = inputs.wx
        batch, steps, heads, dim, _ = wx.shape
        pad = torch.arange(steps)[None] >= torch.tensor(lengths)[:, None]
        self.pad = pad
        self.padded_wx = wx.detach().masked_fill(pad[:, :, None, None, None], NAN).requires_grad_()
        shape = {"shared": (), "rows": (batch,), "stored": (batch, steps)}.get(kind)
        self.values = None
        if shape is not None:
            like = {"dtype": wx.dtype, "device": wx.device}
            # Positive, as a normaliser is.
            drawn = [torch.rand(*shape, heads, dim, **like) + 0.5 for _ in cell.states]
            if kind == "stored":
                mask = self._mask(False)
                drawn = [v.masked_fill(~mask[:, :, None, None], NAN) for v in drawn]
            self.values = [v.requires_grad_(kind != "stored") for v in drawn]

    def _mask(self, anywhere):
        mask = torch.zeros(self.inputs.wx.shape[:2], dtype=torch.bool)
        for row, steps in enumerate(self.resets):
            for step in steps:
                if anywhere or step < self.lengths[row]:
                    mask[row, step] = True
        return mask

    def named(self, wx):
        """Every tensor that gets a gradient, by name."""
        found = self.inputs.named() | {"wx": wx}
        if self.values is not None and self.kind != "stored":
            found |= {f"reset_to[{i}]": v for i, v in enumerate(self.values)}
        return found

    def seeds(self):
        """Gradients of the states over time, with NaN in padding, and of the last states."""
        batch, steps, heads, dim, _ = self.inputs.wx.shape
        like = {"dtype": self.inputs.wx.dtype}
        rows = self.pad[:, :, None, None]
        over_time = [torch.randn(batch, steps, heads, dim, **like) for _ in self.cell.states]
        last = [torch.randn(batch, heads, dim, **like) for _ in self.cell.states]
        return [s.masked_fill(rows, NAN) for s in over_time], last

    def run(self, backend, seeds, scan=None, **options):
        """All results and gradients by name, of one call."""
        i = self.inputs
        reset = {}
        if any(self.resets):
            reset = {"reset": self._mask(True), "reset_to": self.values}
        over_time, last = (scan or rnnc.scan)(
            self.cell, self.padded_wx, i.R, i.b, i.states, R_diag=i.R_diag, params=i.params,
            backend=backend, reverse=self.reverse,
            lengths=torch.tensor(self.lengths, dtype=torch.int64), **reset, **options,
        )  # fmt: skip
        return self._found(over_time, last, self.padded_wx, *seeds)

    def loops(self, seeds):
        """The same from a call of each part of each row."""
        rows = [self._row(row) for row in range(len(self.lengths))]
        over_time = [torch.stack(s) for s in zip(*[r[0] for r in rows], strict=True)]
        last = [torch.cat(s) for s in zip(*[r[1] for r in rows], strict=True)]
        rows = self.pad[:, :, None, None]
        clean = [s.masked_fill(rows, 0.0) for s in seeds[0]]
        return self._found(over_time, last, self.inputs.wx, clean, seeds[1])

    def _row(self, row):
        i, steps = self.inputs, self.inputs.wx.shape[1]
        length = self.lengths[row]
        cuts = [0, *sorted(s for s in self.resets[row] if 0 < s < length), length]
        parts = list(pairwise(cuts)) if length else []
        states = [s[row : row + 1] for s in i.states]
        if length and not self.reverse and 0 in self.resets[row]:
            states = self._reset_to(row, 0, states)
        found = {}
        for number, (first, end) in enumerate(reversed(parts) if self.reverse else parts):
            if number:
                states = self._reset_to(row, end if self.reverse else first, states)
            found[first], states = rnnc.scan(
                self.cell, i.wx[row : row + 1, first:end], i.R, i.b, tuple(states),
                R_diag=i.R_diag, params=i.params, backend="reference", reverse=self.reverse,
            )  # fmt: skip
        _, _, heads, dim, _ = i.wx.shape
        zeros = i.wx.new_zeros(steps - length, heads, dim)
        over_time = [
            torch.cat([*(found[first][s][0] for first, _ in parts), zeros])
            for s in range(len(self.cell.states))
        ]
        return over_time, states

    def _reset_to(self, row, step, like):
        if self.kind == "init" or self.values is None:
            pairs = zip(self.cell.states, like, strict=True)
            return [torch.full_like(value, state.init) for state, value in pairs]
        places = {"shared": (), "rows": (row,), "stored": (row, step)}[self.kind]
        return [value[places][None] for value in self.values]

    def _found(self, over_time, last, wx, d_over_time, d_last):
        names = [s.name for s in self.cell.states]
        found = {f"{n} over time": v for n, v in zip(names, over_time, strict=True)}
        found |= {f"{n} last": v for n, v in zip(names, last, strict=True)}
        named = self.named(wx)
        outputs = [v for v in found.values() if v.requires_grad]
        seeds = [
            d for v, d in zip(found.values(), [*d_over_time, *d_last], strict=True)
            if v.requires_grad
        ]  # fmt: skip
        gradients = torch.autograd.grad(
            outputs, list(named.values()), seeds, materialize_grads=True, allow_unused=True
        )
        return found | {f"d_{n}": d for n, d in zip(named, gradients, strict=True)}
