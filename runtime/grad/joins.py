"""Batches of calls as one call, for `vmap`: their rows, or their heads, lie beside each other.

Calls that share their weights become one call of more rows. Its backward gives the gradients of
weights of each of these calls, as those of samples. Calls with weights of their own become one call
of more heads, if each is a call of one layer that takes wx.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call.settings import CallText

Dims = Sequence[int | None]
# Tensors of a batch of calls, and the axis of the batch in each.
Apart = tuple[tuple[Tensor, ...], tuple[int, ...]]


class Place(NamedTuple):
    """Axis of a tensor of a call, on which those of a batch of calls lie beside each other.

    Attributes:
        axis: from the first one, or from the last one if negative; None if calls share the tensor.
        spreads: whether the tensor may have one value for the whole axis.
        weight: whether it is a weight, params included.
        param: whether it is one of the params.
    """

    axis: int | None
    spreads: bool = False
    weight: bool = False
    param: bool = False


class Join(NamedTuple):
    """Batch of calls as one. In each method `dims` are the axes of the batch, as in `vmap`.

    They are `size` calls like `one`, of `full` heads, if these lie beside each other, or rows each,
    and `places` those of each tensor of a call, in the flat order.
    """

    one: CallText
    size: int
    of_heads: bool
    full: int
    places: list[Place]

    def call(self, samples: int) -> CallText:
        """Return the call of all; in a backward its rows are of so many samples."""
        settings, asked = self.one.settings, self.one.asked
        if self.of_heads:
            settings = settings._replace(heads=self.size * self.full)
        return self.one._replace(settings=settings, asked=asked._replace(samples=samples))

    def samples(self, needs: Sequence[bool]) -> int:
        """Return the samples in the backward of all, of which `needs` says the gradients."""
        own = self.one.asked.samples
        wanted = any(need and place.weight for need, place in self._with_places(needs))
        return self.size * max(own, 1) if wanted and not self.of_heads else own

    def lacks(self, needs: Sequence[bool]) -> bool:
        """Return True if `needs` has weights of each sample that no backward gives.

        They are the params, and of a cell with called gates, which multiply no state, all weights.
        """
        called = bool(self.one.settings.cell.called)
        return not self.of_heads and any(
            need and (place.param or (called and place.weight))
            for need, place in self._with_places(needs)
        )

    def beside(
        self, tensors: Sequence[Any], dims: Dims, needs: Sequence[bool] = ()
    ) -> list[Tensor]:
        """Return the tensors of the call of all, from the last of the flat order."""
        found, wanted = [], needs or [False] * len(tensors)
        places = self.places[-len(tensors) :]
        for tensor, dim, need, place in zip(tensors, dims, wanted, places, strict=True):
            loose = _is_loose(place, shape_of(tensor, dim))
            shared = place.axis is None or (loose and dim is None and not need)
            found.append(tensor if shared else self._beside(tensor, dim, place, loose))
        return found

    def results_beside(self, tensors: Sequence[Any], dims: Dims, kept: bool) -> list[Any]:
        """Return results of the call of all, or their gradients; those for a backward if `kept`."""
        axes = [1 + self.of_heads] * len(tensors) if kept else self._axes(len(tensors))
        return [
            None if tensor is None else self._beside(tensor, dim, Place(axis), False)
            for tensor, dim, axis in zip(tensors, dims, axes, strict=True)
        ]

    def results_apart(self, results: Sequence[Tensor]) -> Apart:
        """Return the results of each call."""
        axes = self._axes(len(results))
        each = zip(results, axes, strict=True)
        return tuple([self._apart(result, axis) for result, axis in each]), tuple(axes)

    def gradients_apart(
        self,
        gradients: Sequence[Tensor],
        tensors: Sequence[Any],
        dims: Dims,
        needs: Sequence[bool],
    ) -> Apart:
        """Return the gradients of each call, of those `tensors` before `beside` that need one."""
        own, apart, axes = iter(gradients), [], []
        leading = min(self.one.asked.samples, 1)  # axes before those of a weight
        for tensor, dim, (need, place) in zip(tensors, dims, self._with_places(needs), strict=True):
            if not need:
                continue
            found = next(own)
            if place.axis is None:  # of a shared weight: samples are the first axis
                axis = 0
                found = self._apart(found, 0) if leading else found
            else:
                outer = leading if place.weight else 0
                axis = place.axis + (found.ndim if place.axis < 0 else outer)
                found = self._apart(found, axis)
                shape = () if tensor is None else shape_of(tensor, dim)
                if _is_loose(place, shape):
                    found = found.sum(axis + 1, keepdim=len(shape) == found.ndim - 1)
            apart.append(found)
            axes.append(axis)
        return tuple(apart), tuple(axes)

    def _with_places(self, needs: Sequence[bool]) -> list[tuple[bool, Place]]:
        return list(zip(needs, self.places, strict=True))

    def _axes(self, count: int) -> list[int]:
        """Return the axes of results on which those of all calls lie beside each other."""
        states, asked, plane = len(self.one.settings.cell.states), self.one.asked, 1 + self.of_heads
        sequences = states if asked.all_states else 1
        last = plane - asked.takes_wx  # (B, N, D), or (layers * directions, B, hidden)
        return [*[plane] * sequences, *[last] * states, *[plane] * (count - sequences - states)]

    def _beside(self, tensor: Tensor, dim: int | None, place: Place, loose: bool) -> Tensor:
        """Return tensors of all calls beside each other, call by call."""
        found = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
        assert place.axis is not None
        if loose and not place.spreads:
            found = found.unsqueeze(-2)
        axis = place.axis if place.axis >= 0 else place.axis + found.ndim - 1
        shape = [self.size, *found.shape[1:]]
        if loose:
            shape[axis + 1] = self.full
        return found.expand(shape).movedim(0, axis).flatten(axis, axis + 1)

    def _apart(self, tensor: Tensor, axis: int) -> Tensor:
        return torch.unflatten(tensor, axis, (self.size, tensor.shape[axis] // self.size))


def join_of(written: CallText, dims: Dims, size: int, batch: int) -> Join | None:
    """Return how `size` calls of `batch` rows are one call; None if they are not."""
    for of_heads in (False, True)[: 1 + written.asked.takes_wx]:
        places = _places(written, of_heads)
        each = zip(dims, places, strict=True)
        if all(dim is None or place.axis is not None for dim, place in each):
            full = written.settings.heads if of_heads else batch
            return Join(written, size, of_heads, full, places)
    return None


def _places(written: CallText, of_heads: bool) -> list[Place]:
    """Return the place of each of the tensors of a call, in the flat order."""
    asked, cell, kind = written.asked, written.settings.cell, written.asked.ragged
    first = 1 + of_heads - asked.takes_wx  # of states
    found = [Place(first + (of_heads and asked.takes_wx))]
    found += [Place(first)] * (len(cell.states) if asked.given else 0)
    if kind is not None:
        found += [Place(None if of_heads else 0)] * kind.lengths
        found += [Place(None if of_heads else 1)] * kind.reset
        # Their last axis is that of heads and units.
        found += [Place(-1 if of_heads else -2)] * kind.values
    # From the end: before rows may come the axis of layers and directions.
    found += [Place(-2 if of_heads else -4, spreads=True)] * len(cell.inputs)
    for number, there in enumerate(written.present):
        param = number % (4 + len(cell.params)) > 3
        axis = (0 if param else 1) if of_heads else None
        found += [Place(axis, weight=True, param=param)] * there
    return [*found, *[Place(2)] * asked.drawn]


def shape_of(tensor: Tensor, dim: int | None) -> tuple[int, ...]:
    """Return the shape of a tensor of one call."""
    shape = list(tensor.shape)
    if dim is not None:
        del shape[dim]
    return tuple(shape)


def _is_loose(place: Place, shape: tuple[int, ...]) -> bool:
    """Return True if a tensor has one value for the whole axis, or lacks that: reset values."""
    if place.spreads:
        return place.axis is not None and shape[place.axis] == 1
    return place.axis == -2 and len(shape) == 2
