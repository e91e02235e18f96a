"""Single direction of a layer whose output is projected, and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...call.call import Tensors
from ...call.layer_call import Choice
from ...call.masks import FIRST, HOLD, RESTART, MadeMasks, Masks, with_reset_values
from ...call.plain import without_autocast
from ...call.projection import Projection
from ...call.ragged import Ragged, as_of_one_layer, by_heads
from ...call.settings import Asked, Settings, one_direction
from ...call.tensors import SomeTensors, States
from ..by_layer import input_share
from ..route import run_call


class Part(NamedTuple):
    """Weights of one direction of a layer.

    Attributes:
        recurrent: R', (heads * gates * D, P), which multiplies h.
        matrix: P of each head, (heads * P, D).
        others: the parameters besides both, in their order. In place of R' there are the matrices
            that multiply something else than h, (heads * gates * D, D), or None.
        order: of all matrices, as in `Projection`.
    """

    recurrent: Tensor
    matrix: Tensor
    others: list[Tensor | None]
    order: tuple[int, ...] = ()

    def whole(self, heads: int) -> list[Tensor | None]:
        """Return the parameters of a direction that is not projected: R = R' P replaces R'."""
        # In float32 at least, and rounded once.
        wide = torch.promote_types(self.recurrent.dtype, torch.float32)
        device = self.recurrent.device.type
        # Torch has no autocast of "meta"; a compiled call of 2.11 cannot ask which devices have it.
        with nullcontext() if device == "meta" else without_autocast(device):
            R = _product(self.recurrent.to(wide), self.matrix.to(wide), heads)
        W, own, *others = self.others
        R = R.to(self.recurrent.dtype)
        if own is not None:
            by_head = (heads, -1, R.shape[1], R.shape[1])
            both = torch.cat((R.view(by_head), own.view(by_head)), 1)
            R = both[:, list(self.order)].view(-1, R.shape[1])
        return [W, R, *others]


def parts_of(weights: SomeTensors, count: int, order: tuple[int, ...] | None = None) -> list[Part]:
    """Return the weights of each direction, of which each has `count`: W, R', others and P.

    With the `order` of a projection the matrices that do not multiply h, or None, come before P.
    """
    found = []
    for first in range(0, len(weights), count):
        W, recurrent, *others, matrix = weights[first : first + count]
        own = None
        if order is not None:  # torch 2.11 follows no `pop` in a compiled call
            *others, own = others
        assert recurrent is not None
        assert matrix is not None
        found.append(Part(recurrent, matrix, [W, own, *others], order or ()))
    return found


def _product(recurrent: Tensor, matrix: Tensor, heads: int) -> Tensor:
    """Return R' P of each head, (heads * gates * D, D)."""
    if heads == 1:
        return torch.mm(recurrent, matrix)
    size, dim = matrix.shape[0] // heads, matrix.shape[1]
    each = torch.bmm(recurrent.view(heads, -1, size), matrix.view(heads, size, dim))
    return each.view(-1, dim)


def projected(states: Tensor, matrix: Tensor, heads: int) -> Tensor:
    """Return P h~ of each head, from states (..., heads * D) and a matrix (heads * P, D)."""
    if heads == 1:
        return F.linear(states, matrix)
    outer = states.shape[:-1]
    each = states.reshape(-1, heads, matrix.shape[1]).transpose(0, 1)
    found = torch.bmm(each, matrix.view(heads, -1, matrix.shape[1]).transpose(1, 2))
    return found.transpose(0, 1).reshape(*outer, matrix.shape[0])


class Direction(NamedTuple):
    """Call of one direction of a layer, on x (T, B, features).

    `states` are (B, features) each before the first step; empty for each state's `init`. `every`
    wants all states at all steps, or else the output alone. `unweighted` is as in `ScanInputs`.
    """

    settings: Settings
    projection: Projection
    choice: Choice
    x: Tensor
    states: Sequence[Tensor]
    part: Part
    every: bool
    unweighted: Sequence[Tensor]

    def masks(
        self, made: MadeMasks | None, ragged: Ragged | None, index: int
    ) -> tuple[Masks | None, Ragged | None, Tensor | None]:
        """Return masks, rows of the recurrence on h~, and h after a reset, of a direction."""
        if made is None or ragged is None:
            return None, None, None
        settings, (size, init) = self.settings, self.projection[:2]
        plane = settings.heads, settings.dim
        found = made.at(index, None, plane, self.choice.reverse)
        if ragged.reset is None:
            return found, ragged, None
        values = ragged.reset_to
        if values is None:
            if not init:
                return found, ragged, None
            rows = [self.x.new_full((settings.heads, size), init)]
            rows += [self.x.new_full(plane, state.init) for state in settings.cell.states[1:]]
        else:
            sizes = [size, *[settings.dim] * (len(values) - 1)]
            own = zip(values, sizes, strict=True)
            rows = [by_heads(value[index], settings.heads, dim) for value, dim in own]
        found = with_reset_values(found, rows, self.choice.reverse is True)
        assert found.reset_to is not None
        zero = self.x.new_zeros(settings.heads, settings.dim)
        entering = [as_of_one_layer(value) for value in (zero, *rows[1:])]
        return found, ragged._replace(reset_to=entering), found.reset_to[0]

    def run(
        self, masks: Masks | None, ragged: Ragged | None, value: Tensor | None
    ) -> tuple[list[Tensor], States]:
        """Return the states at all steps, (T, B, features) each, and after the last step.

        Arguments are what `masks` gave: `value` is h after a reset, as in `Masks.reset_to`; None
        where it is zero.
        """
        h, others = self._first()
        if masks is None:
            return self._all_rows(h, others)
        settings, projection, x = self.settings, self.projection, self.x
        shape = x.shape[1], settings.heads, settings.dim
        first = [x.new_zeros(shape), *[state.reshape(shape) for state in others]]
        weights = settings.form.weights(self.part.whole(settings.heads), 1)[0]
        cell, wx = projection.recurrent, input_share(settings, x, weights.W)
        added = self._added(h, value, masks) if len(x) else None
        if added is not None:
            cell, wx = projection.entered, self._entered(wx, added)
        one = one_direction(settings, cell, self.choice)
        tensors = Tensors(wx, first, (None, *weights.flat()[1:]), ragged, tuple(self.unweighted))
        over_time, last = run_call(one, tensors, Asked(takes_wx=True, all_states=self.every))
        return self._results(
            [state.reshape(*x.shape[:2], -1) for state in over_time],
            [state.reshape(x.shape[1], -1) for state in last],
            *(h, masks),
        )

    def _first(self) -> tuple[Tensor | None, Sequence[Tensor]]:
        """Return the states before the first step: h, or None where it is zero, and the others."""
        if self.states:
            return self.states[0], self.states[1:]
        settings, projection = self.settings, self.projection
        batch, hidden = self.x.shape[1], settings.heads * settings.dim
        others = [self.x.new_full((batch, hidden), s.init) for s in settings.cell.states[1:]]
        # A single step without h would leave R' without a gradient.
        if not projection.init and len(self.x) != 1:
            return None, others
        size = settings.heads * projection.size
        return self.x.new_full((batch, size), projection.init), others

    def _all_rows(self, h: Tensor | None, others: Sequence[Tensor]) -> tuple[list[Tensor], States]:
        """Run all steps of all rows: the first from h, the later ones from the h~ of the first."""
        x, reverse = self.x, self.choice.reverse is True
        state = x.new_zeros(x.shape[1], self.settings.heads * self.settings.dim)
        states, more = [state, *others], self.unweighted
        found: list[list[Tensor]] = []
        if h is not None and len(x):
            # The compiler of torch 2.11 takes no bool for an index.
            first, later = (1, 0) if reverse else (0, 1)
            sizes = [len(x) - 1, 1] if reverse else [1, len(x) - 1]
            parts = torch.split(x, sizes)
            steps = [torch.split(u, sizes, 1) if u.shape[1] > 1 else (u, u) for u in more]
            states = self._single(parts[first], h, others, [u[first] for u in steps])
            x, more = parts[later], [u[later] for u in steps]
            stored = states if self.every else states[:1]
            found.append([state.unsqueeze(0) for state in stored])
        if len(x) or not found:
            settings = self.settings
            one = one_direction(settings, self.projection.recurrent, self.choice)
            one = one._replace(form=settings.form)
            given = [state.reshape(1, x.shape[1], -1) for state in states]
            tensors = Tensors(x, given, self.part.whole(settings.heads), None, tuple(more))
            over_time, last = run_call(one, tensors, Asked(all_states=self.every))
            found.insert(0 if reverse else 1, over_time)
            states = [state[0] for state in last]
        joined = [torch.cat(s) if len(s) > 1 else s[0] for s in zip(*found, strict=True)]
        return self._results(joined, states, h, None)

    def _single(
        self, x: Tensor, h: Tensor, others: Sequence[Tensor], unweighted: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the states after one step on x (1, B, features) from h, with h~ in its place."""
        settings = self.settings
        shape = x.shape[1], settings.heads, settings.dim
        weights = settings.form.weights(self.part.others, 1)[0]
        entering = self._product(h.reshape(shape[0], 1, shape[1], -1))
        wx = self._entered(input_share(settings, x, weights.W), entering)
        first = [x.new_zeros(shape), *[state.reshape(shape) for state in others]]
        one = one_direction(settings, self.projection.single, self.choice._replace(reverse=False))
        tensors = Tensors(wx, first, (None, *weights.flat()[1:]), None, tuple(unweighted))
        _, last = run_call(one, tensors, Asked(takes_wx=True))
        return [state.reshape(shape[0], -1) for state in last]

    def _results(
        self,
        over_time: Sequence[Tensor],
        last: Sequence[Tensor],
        h: Tensor | None,
        masks: Masks | None,
    ) -> tuple[list[Tensor], States]:
        """Return the results of a call, with h in place of h~."""
        matrix, heads = self.part.matrix, self.settings.heads
        y = projected(over_time[0], matrix, heads)
        end = projected(last[0], matrix, heads)
        if masks is not None and masks.longest is not None:
            # What comes back in padding must not reach the gradient of P.
            y = torch.where((masks.steps != HOLD).unsqueeze(2), y, 0.0)
            if h is not None:
                end = torch.where((masks.longest == 0).unsqueeze(1), h, end)
        if h is not None and not len(self.x):
            end = h.to(end.dtype)
        return [y, *over_time[1:]], (end, *last[1:])

    def _added(self, h: Tensor | None, value: Tensor | None, masks: Masks) -> Tensor | None:
        """Return R' h, (B, T, N, D, gates), that enters the gates; None for nothing."""
        heads, batch = self.settings.heads, self.x.shape[1]
        if h is not None:
            h = h.reshape(batch, 1, heads, self.projection.size)
        # A row may lack such a step. No product reads its h then, which may hold anything.
        how = masks.steps.t()[:, :, None, None]
        found: Tensor | None = None
        if h is not None:
            first = how == FIRST
            own = self._product(torch.where(first.any(1, keepdim=True), h, 0.0))
            found = torch.where(first.unsqueeze(4), own, 0.0)
        if value is not None:
            resets = how == RESTART
            if value.ndim == 4:
                missing = self.x.shape[0] - value.shape[1]  # the last step, in reverse
                value = torch.where(resets, F.pad(value, (0, 0, 0, 0, 0, missing)), 0.0)
            elif value.ndim == 3:
                value = torch.where(resets.any(1), value, 0.0).unsqueeze(1)
            else:
                value = torch.where(resets.any(), value, 0.0)
            own = self._product(value)
            found = torch.where(resets.unsqueeze(4), own, 0.0 if found is None else found)
        return found

    def _product(self, h: Tensor) -> Tensor:
        """Return R' h of each head: (..., N, P) -> (..., N, D, gates)."""
        heads, gates, dim = self.settings.heads, len(self.projection.gates), self.settings.dim
        outer, size = h.shape[:-2], self.projection.size
        flat = projected(h.reshape(-1, heads * size), self.part.recurrent, heads)
        return flat.reshape(*outer, heads, gates, dim).transpose(-1, -2)

    def _entered(self, wx: Tensor, added: Tensor) -> Tensor:
        """Return the input's contribution to each gate that takes input, with what is added."""
        if self.projection.adds_to_input:
            return wx + added
        old = dict(zip(self.projection.recurrent.input_gates, wx.unbind(4), strict=True))
        new = dict(zip(self.projection.gates, added.unbind(4), strict=True))
        columns = []
        for gate in self.projection.entered.input_gates:
            each = [own[gate] for own in (old, new) if gate in own]
            columns.append(each[0] + each[1] if len(each) > 1 else each[0].expand(wx.shape[:4]))
        return torch.stack(columns, 4)
