"""One direction of a layer whose output is projected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..autograd.settings import Settings
from ..call import Choice
from ..check.plain import is_watched
from ..masks import FIRST, HOLD, RESTART, Masks, with_reset_values
from ..ragged.given import Ragged, by_heads
from ..scan import run_scan
from ..targets import target_of
from ..tensors import ScanInputs, States
from .projection import Projection
from .ragged import RaggedLayers


class Part(NamedTuple):
    """The weights of one direction of a layer.

    Attributes:
        recurrent: R', (heads * gates * D, P), which multiplies h.
        matrix: P of each head, (heads * P, D).
        whole: the parameters of a direction that is not projected, with R = R' P in place of R'.
    """

    recurrent: Tensor
    matrix: Tensor
    whole: list[Tensor | None]


def projected(states: Tensor, matrix: Tensor, heads: int) -> Tensor:
    """P h~ of each head.

    Args:
        states: (..., heads * D).
        matrix: (heads * P, D).
        heads: their number.
    """
    if heads == 1:
        return F.linear(states, matrix)
    outer = states.shape[:-1]
    each = states.reshape(-1, heads, matrix.shape[1]).transpose(0, 1)
    found = torch.bmm(each, matrix.view(heads, -1, matrix.shape[1]).transpose(1, 2))
    return found.transpose(0, 1).reshape(*outer, matrix.shape[0])


class Direction(NamedTuple):
    """A call of one direction of a layer.

    Attributes:
        settings: of the module.
        projection: of its cell.
        choice: of the direction.
        x: (T, B, features).
        states: before the first step, (B, features) each; empty for each state's `init`.
        part: its weights.
        every: whether all states are wanted at all steps, or the output alone.
        unweighted: as in `ScanInputs`.
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
        self, in_time: RaggedLayers | None, ragged: Ragged | None, index: int
    ) -> tuple[Masks | None, Tensor | None]:
        """The masks of the recurrence on h~, which restarts at zero, and what h becomes there.

        Args:
            in_time: of the call.
            ragged: of the call.
            index: the number of the direction among those of all layers.
        """
        if in_time is None or ragged is None:
            return None, None
        settings, (size, init) = self.settings, self.projection[:2]
        found = in_time.masks_of(index)
        if found is None or ragged.reset is None:
            return found, None
        values = ragged.reset_to
        if values is None:
            if not init:
                return found, None
            rows = [self.x.new_full((settings.heads, size), init)]
            plane = settings.heads, settings.dim
            rows += [self.x.new_full(plane, state.init) for state in settings.cell.states[1:]]
        else:
            sizes = [size, *[settings.dim] * (len(values) - 1)]
            own = zip(values, sizes, strict=True)
            rows = [by_heads(value[index], settings.heads, dim) for value, dim in own]
        found = with_reset_values(found, rows, self.choice.reverse is True)
        assert found.reset_to is not None
        value, *others = found.reset_to
        zero = self.x.new_zeros(settings.heads, settings.dim)
        return Masks(found.steps, found.longest, (zero, *others)), value

    def run(self, masks: Masks | None, value: Tensor | None) -> tuple[list[Tensor], States]:
        """The states at all steps, (T, B, features) each, and after the last step.

        Args:
            masks: of the recurrence.
            value: of h after a reset, as in `Masks.reset_to`; None where it is zero.
        """
        settings, projection, x = self.settings, self.projection, self.x
        heads, dim, (steps, batch, _) = settings.heads, settings.dim, x.shape
        cell, target = projection.recurrent, target_of(x.device, settings.backend)
        shape = batch, heads, dim
        first = target.initial_states(x, [state.init for state in cell.states], shape)
        h: Tensor | None = None
        if self.states:
            h, *others = self.states
            first = [x.new_zeros(shape), *[state.reshape(shape) for state in others]]
        elif projection.init or (steps == 1 and masks is None):
            h = x.new_full((batch, heads * projection.size), projection.init)
        W, R, b, R_diag, params = settings.form.weights(self.part.whole, 1)[0]
        wx = x.new_empty(batch, steps, heads, dim, 0) if W is None else target.project(x, W)
        added = None if not steps else self._added(h, value, masks)
        if added is not None:
            cell = projection.entered if masks is not None or steps > 1 else projection.single
            wx = self._entered(wx, added)
        if not cell.dense_pairs:
            R = None
        inputs = ScanInputs(wx, R, b, first, R_diag, params, masks, self.unweighted)
        wanted = (True, *(self.every,) * (len(first) - 1))
        over_time, last = run_scan(cell, inputs, wanted, settings.backend, self.choice)
        flat = [
            state.transpose(0, 1).reshape(steps, batch, heads * dim)
            for state in (over_time if self.every else over_time[:1])
        ]
        y = projected(flat[0], self.part.matrix, heads)
        if masks is not None and masks.longest is not None:
            # What comes back in padding must not reach the gradient of P.
            y = torch.where((masks.steps != HOLD).unsqueeze(2), y, 0.0)
        ends = [state.reshape(batch, heads * dim) for state in last]
        return [y, *flat[1:]], (self._last(ends[0], h, masks), *ends[1:])

    def _last(self, state: Tensor, h: Tensor | None, masks: Masks | None) -> Tensor:
        """The output after the last step: the first one in rows of no steps."""
        found = projected(state, self.part.matrix, self.settings.heads)
        if h is None:
            return found
        if not len(self.x):
            return h.to(found.dtype)
        if masks is None or masks.longest is None:
            return found
        return torch.where((masks.longest == 0).unsqueeze(1), h, found)

    def _added(self, h: Tensor | None, value: Tensor | None, masks: Masks | None) -> Tensor | None:
        """What enters the gates as R' h, (B, T, N, D, gates), or of one step; None for nothing.

        Args:
            h: before the first step; None where it is zero.
            value: after a reset; None where it is zero.
            masks: of the call.
        """
        heads, batch = self.settings.heads, self.x.shape[1]
        if h is not None:
            h = h.reshape(batch, 1, heads, self.projection.size)
        if masks is None:
            return None if h is None else self._product(h)
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
        """R' h of each head: (..., N, P) -> (..., N, D, gates)."""
        heads, gates, dim = self.settings.heads, len(self.projection.gates), self.settings.dim
        outer, size = h.shape[:-2], self.projection.size
        if heads == 1:
            flat = F.linear(h.reshape(-1, size), self.part.recurrent)
        else:
            each = h.reshape(-1, heads, size).transpose(0, 1)
            flat = torch.bmm(each, self.part.recurrent.view(heads, -1, size).transpose(1, 2))
            flat = flat.transpose(0, 1)
        return flat.reshape(*outer, heads, gates, dim).transpose(-1, -2)

    def _entered(self, wx: Tensor, added: Tensor) -> Tensor:
        """The input's contribution to each gate that takes input, with what is added.

        Args:
            wx: of the gates that take input.
            added: to the gates with a recurrent matrix; of the first step that runs if the call
                has no masks.
        """
        steps = wx.shape[1]
        if added.shape[1] < steps:
            at_end = self.choice.reverse is True
            if self.projection.adds_to_input and not (
                torch.compiler.is_compiling() or is_watched()
            ):
                wx[:, steps - 1 if at_end else 0] += added[:, 0]
                return wx
            missing = (steps - 1, 0) if at_end else (0, steps - 1)
            added = F.pad(added, (0, 0, 0, 0, 0, 0, *missing))
        if self.projection.adds_to_input:
            return wx + added
        old = dict(zip(self.projection.recurrent.input_gates, wx.unbind(4), strict=True))
        new = dict(zip(self.projection.gates, added.unbind(4), strict=True))
        columns = []
        for gate in self.projection.entered.input_gates:
            each = [own[gate] for own in (old, new) if gate in own]
            columns.append(each[0] + each[1] if len(each) > 1 else each[0].expand(wx.shape[:4]))
        return torch.stack(columns, 4)
