"""Rows that the layers of a module read and write: of all steps, or packed ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...call.call import Call, Tensors
from ...call.ragged import Ragged
from ...call.requests import InputBackward
from ...call.tensors import SomeTensors
from ...targets.registry import TARGETS

Copy = Callable[[Tensor], Tensor]
Copies = Callable[[Sequence[Tensor]], Tensor]


class LayerRows:
    """Rows that layers read and write, of all steps: features are (T, B, …), `sizes` T and B.

    Where the call takes wx, its features are wx, (B, T, N, D, Gx), and states of one direction.
    """

    def __init__(self, call: Call, sizes: tuple[int, int]) -> None:
        self._call, self.sizes = call, sizes

    def joined(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the features of a layer, from the outputs of its directions, (T, B, N, D) each."""
        if self._call.takes_wx:
            return outputs[0]
        (steps, batch), (heads, dim) = self.sizes, outputs[0].shape[2:]
        if len(outputs) == 1:
            return outputs[0].view(steps, batch, heads * dim)
        return torch.cat(list(outputs), 2).view(steps, batch, self._call.features)

    def split(self, features: Tensor | None) -> SomeTensors:
        """Return the inverse of `joined`, for gradients; None for zero."""
        call, directions = self._call, len(self._call.directions)
        if features is None:
            return [None] * directions
        if call.takes_wx:
            return [features]
        return features.view(*self.sizes, directions, call.heads, call.dim).unbind(2)

    def project(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Return wx in the device's layout; the weight is (Gx, N, D, input), or None."""
        call = self._call
        if call.takes_wx:
            return x
        if weight is None:  # it still runs for as many steps
            return x.new_empty(x.shape[1], x.shape[0], call.heads, call.dim, 0)
        return TARGETS[call.target].project_at(x, weight, call.tf32)

    def read(self, d_wx: Tensor) -> Tensor:
        """Return `d_wx` of a backward as `project_gradients` reads it."""
        return d_wx

    def project_gradients(
        self,
        d_wx: Tensor,
        x: Tensor,
        weight: Tensor,
        wanted: tuple[bool, bool],
        d_x: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the wanted gradients of `project`: of x, added to `d_x`, and the weight."""
        call, packed = self._call, x.ndim == 2  # as one step of all rows
        if packed:
            x, d_x = x.unsqueeze(1), None if d_x is None else d_x.unsqueeze(1)
        backward = InputBackward(d_wx, x, weight, wanted, call.tf32, d_x, call.by_head)
        found, d_weight = TARGETS[call.target].project_gradients(backward)
        return found.squeeze(1) if packed and found is not None else found, d_weight


class PackedRows(LayerRows):
    """Rows that run, one after the other: features are (total, …). Products read no others.

    `pad` makes padded rows of packed ones, and `pack` packed ones of several padded tensors.
    """

    def __init__(self, call: Call, sizes: tuple[int, int], pad: Copy, pack: Copies) -> None:
        super().__init__(call, sizes)
        self._pad, self._pack = pad, pack

    def joined(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return packed features; see `LayerRows`."""
        return self._pack(outputs)

    def split(self, features: Tensor | None) -> SomeTensors:
        """Return the inverse of `joined`; see `LayerRows`."""
        return super().split(None if features is None else self._pad(features))

    def project(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Return the input's contribution to the gates; see `LayerRows`."""
        wx = x if self._call.takes_wx else super().project(x.unsqueeze(1), weight)[0]
        return _padded(wx, self._pad)

    def read(self, d_wx: Tensor) -> Tensor:
        """Return `d_wx` of packed rows, as one step of them where they have an input."""
        found = _packed(d_wx, lambda rows: self._pack([rows]).view(-1, *rows.shape[2:]))
        return found if self._call.takes_wx else found.unsqueeze(0)


def _padded(wx: Tensor, pad: Copy) -> Tensor:
    """Return wx (B, T, N, D, Gx) of (total, N, D, Gx); gates or units stay last in memory."""
    straight = wx.stride(3) <= wx.stride(2)
    found = pad(wx if straight else wx.transpose(2, 3))
    return (found if straight else found.transpose(3, 4)).transpose(0, 1)


def _packed(wx: Tensor, pack: Copy) -> Tensor:
    """Return the inverse of `_padded`."""
    straight, in_time = wx.stride(4) <= wx.stride(3), wx.transpose(0, 1)
    found = pack(in_time if straight else in_time.transpose(3, 4))
    return found if straight else found.transpose(2, 3)


def sizes_of(call: Call, x: Tensor, ragged: Ragged | None) -> tuple[int, int]:
    """Return T and B of a call on x."""
    if ragged is not None and ragged.places is not None:
        steps, batch = ragged.places.padded.shape
        return steps, batch
    if ragged is not None and ragged.starts is not None and ragged.lengths is not None:
        return len(ragged.starts) - 1, len(ragged.lengths)
    return (x.shape[1], x.shape[0]) if call.takes_wx else (x.shape[0], x.shape[1])


def layer_rows(call: Call, sizes: tuple[int, int], tensors: Tensors) -> LayerRows:
    """Return the rows of a call of T steps and B rows."""
    ragged = tensors.ragged
    if ragged is not None and ragged.places is not None:
        places = ragged.places
        return PackedRows(call, sizes, places.pad, lambda parts: places.pack(parts[0]))
    if ragged is None or ragged.starts is None:
        return LayerRows(call, sizes)
    packing = TARGETS[call.target].packing(ragged.starts, sizes, len(tensors.x))
    return PackedRows(call, sizes, packing.pad, packing.pack)
