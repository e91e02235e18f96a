"""Calls of cells without dense matrices: their cells, masks with NaN in padding, and results."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
import rnnc
import torch
from rnnc import (
    Gate,
    Input,
    Param,
    State,
    bernoulli,
    clip_gradient,
    exp,
    gate,
    maximum,
    sigmoid,
    tanh,
)
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.cuda.scan import search
from rnnc.codegen.cuda.scan.form import NoScanError, form_of
from rnnc.codegen.plan import Plan
from rnnc.codegen.shape import Direction
from rnnc.runtime.cuda import choose, prepared, ready
from rnnc.runtime.store.tuned import Asked
from torch import Tensor

# The axes of the values after a reset, before (N, D); None for the initial states.
FORMS = {"init": None, "shared": (), "rows": ("B",), "stored": ("B", "T")}
NAN = float("nan")


@rnnc.cell
def mixed(
    c: State,
    h: State,
    *,
    f: Gate = gate(recurrent="diagonal"),
    n: Gate = gate(recurrent=False),
    u: Gate = gate(input=False, recurrent="diagonal"),
    decay: Input,
    bound: Input = bernoulli(0.3),
    slope: Param,
):
    """Gates of all kinds, inputs with and without a gradient, a param, two states."""
    c = sigmoid(f) * c + decay * tanh(n * slope + u)
    return c, h + bound * c


@rnnc.cell
def gated(
    c: State,
    h: State,
    *,
    f: Gate = gate(recurrent=False),
    n: Gate = gate(recurrent="diagonal", source="c"),
    o: Gate = gate(input=False, recurrent="diagonal", source="c"),
    decay: Input,
    bound: Input = bernoulli(0.3),
    slope: Param,
):
    """An affine state with diagonal weights, inputs, a param, a gate without input, an output."""
    c = decay * sigmoid(f) * c + slope * n
    return c, bound * tanh(c) + o


@rnnc.cell
def cascaded(
    h: State,
    late: State,
    c: State,
    y: State,
    *,
    f: Gate = gate(recurrent=False),
):
    """Affine parts that read each other's old values, of which one reads no past of its own."""
    h = 0.9 * h + f
    return h, 0.5 * h, sigmoid(f) * c + late, tanh(h) - c


@rnnc.cell
def two_sources(
    h: State,
    c: State,
    *,
    g: Gate = gate(recurrent="diagonal", source=("h", "c")),
    o: Gate = gate(input=False, recurrent="diagonal", source="c"),
):
    """A gate with weights on two states, which make a matrix of them."""
    return 0.5 * g, 0.25 * o - g / 4


@rnnc.cell
def highest(m: State, *, f: Gate = gate(recurrent=False), i: Gate = gate(recurrent=False)):
    """Nothing but a maximum, which may begin below all that it meets."""
    return maximum(maximum(m + f, i) - 0.25, 0.5 * i)


@rnnc.cell
def over_maxima(
    h: State,
    m: State,
    c: State,
    n: State,
    k: State,
    *,
    f: Gate = gate(recurrent=False),
    i: Gate = gate(recurrent="diagonal", source="c"),
    decay: Input,
    slope: Param,
):
    """Two maxima; a state that one of them scales, with a diagonal weight; one that none does."""
    top = maximum(m - abs(f), decay)
    c = exp(m - abs(f) - top) * c + slope * i
    return tanh(c) + n, top, c, 0.9 * n + top, maximum(k, f)


@rnnc.cell
def highest_of_another(m: State, h: State, *, f: Gate = gate(recurrent=False)):
    """A maximum of what an affine state adds to it."""
    return maximum(m + h, f), 0.5 * h + f


@rnnc.cell
def clipped_between(h: State, c: State, *, f: Gate = gate(recurrent=False)):
    """A clip between two parts: each is linear, and their map is not."""
    return sigmoid(f) * h + f, 0.5 * c + clip_gradient(h, 0.3)


def cells_without_r() -> list[str]:
    """The library's cells whose units read their own past alone, in one stage."""
    cells = {name: rnnc.cells.get(name) for name in rnnc.cells.names()}
    return [
        name
        for name, cell in cells.items()
        if cell.recurrence.kind != "dense" and not cell.has_stages
    ]


def scanned(cell: rnnc.Cell, direction: Direction) -> bool:
    """Whether a scan plan runs a direction of a cell."""
    try:
        form_of(cell, direction)
    except NoScanError:
        return False
    return True


# Of a warp, in blocks that take all tiles of their channels; 0: blocks take tiles in turns.
PARTS = (0, 1, 2)


def scan_in_parts(patch: pytest.MonkeyPatch, parts: int) -> None:
    """Let `variant="scan"` take plans with so many parts."""
    patch.setattr(search, "_PARTS", (parts,))
    _plan_anew(patch, for_auto=False)


def walk_then_scan(patch: pytest.MonkeyPatch) -> None:
    """Let `variant="auto"` take the pairs of the scan kind that "auto" considers."""
    _plan_anew(patch, for_auto=True)


def _plan_anew(patch: pytest.MonkeyPatch, for_auto: bool) -> None:
    def planned(asked: Asked, variant: str = "auto") -> Plan:
        sizes = asked.cell, asked.shape, asked.limits, asked.save, asked.tf32
        kind = "scan" if for_auto else variant
        return plans_of_kind(kind, *sizes, for_auto=for_auto)[0]

    patch.setattr(choose, "planned", planned)
    patch.setattr(choose, "recall", lambda _: None)
    for cached in (choose.choose_plan, ready.ready_for, prepared.prepare):
        cached.cache_clear()


@dataclass
class WalkCall:
    """A call of `rnnc.scan` with the gradients of its outputs."""

    cell: rnnc.Cell
    inputs: Any
    seeds: list[Tensor]
    masks: dict[str, Any]
    reverse: bool = False

    def run(self, backend: str, *, double: bool = False, **choice: Any) -> dict[str, Tensor]:
        """Every output, and every gradient, by name."""

        def leaf(tensor: Tensor) -> Tensor:
            needs, changes = tensor.requires_grad, double and tensor.is_floating_point()
            tensor = tensor.detach()
            return (tensor.double() if changes else tensor).requires_grad_(needs)

        inputs, masks = self.inputs.map(leaf), dict(self.masks)
        values = masks.get("reset_to")
        if values:
            masks["reset_to"] = values = [leaf(v) for v in values]
        over_time, last = rnnc.scan(
            self.cell,
            inputs.wx,
            inputs.R,
            inputs.b,
            inputs.states,
            R_diag=inputs.R_diag,
            params=inputs.params,
            inputs=inputs.inputs or None,
            reverse=self.reverse,
            backend=backend,
            **masks,
            **choice,
        )
        found = {f"over time {i}": s for i, s in enumerate(over_time)}
        found |= {f"last {i}": s for i, s in enumerate(last)}
        leaves = {name: given for name, given in inputs.named().items() if given.requires_grad}
        leaves |= {f"reset to {i}": v for i, v in enumerate(values or ()) if v.requires_grad}
        pairs = zip(found.values(), map(leaf, self.seeds), strict=True)
        seeded = [(result, seed.detach()) for result, seed in pairs if result.requires_grad]
        gradients = torch.autograd.grad(
            [result for result, _ in seeded],
            list(leaves.values()),
            [seed for _, seed in seeded],
            allow_unused=True,
            materialize_grads=True,
        )
        found |= {f"d {name}": g for name, g in zip(leaves, gradients, strict=True)}
        return {name: value.detach() for name, value in found.items()}


def call_of(
    cell: rnnc.Cell,
    inputs: Any,
    form: str | None = None,
    *,
    reverse: bool = False,
    lengths: bool = True,
    resets: bool = True,
) -> WalkCall:
    """A call with such inputs.

    Args:
        cell: the cell.
        inputs: its inputs.
        form: of the values after a reset; None for a call without masks.
        reverse: whether the cell runs from the last step to the first.
        lengths: whether rows have lengths, if there are masks.
        resets: whether rows have resets, if there are masks.
    """
    batch, steps, heads, dim, _ = inputs.wx.shape
    like: dict[str, Any] = {"dtype": inputs.wx.dtype, "device": inputs.wx.device}
    seeds = [torch.randn(batch, steps, heads, dim, **like) for _ in cell.states]
    seeds += [torch.randn(batch, heads, dim, **like) for _ in cell.states]
    if form is None:
        return WalkCall(cell, inputs, seeds, {}, reverse)
    masks, pad = _masks(cell, inputs.wx, form, lengths, resets)
    wx = inputs.wx.detach().masked_fill(pad[..., None, None, None], NAN)
    seeds = [s.masked_fill(pad[..., None, None], NAN) if s.ndim == 4 else s for s in seeds]
    return WalkCall(cell, replace(inputs, wx=wx.requires_grad_()), seeds, masks, reverse)


def _masks(
    cell: rnnc.Cell, wx: Tensor, form: str, lengths: bool, resets: bool
) -> tuple[dict[str, Any], Tensor]:
    """Lengths, resets and the values after them; and which steps are padding."""
    batch, steps, heads, dim, _ = wx.shape
    on = {"device": wx.device}
    counts = torch.randint(0, steps + 1, (batch,), **on)
    counts[torch.randperm(batch, **on)[:3]] = torch.tensor([0, 1, steps], **on)[:batch]
    if not lengths:
        counts[:] = steps
    pad = torch.arange(steps, **on) >= counts[:, None]
    reset = torch.rand(batch, steps, **on) < random.choice((0.2, 0.5, 1.1))
    values, axes = None, FORMS[form]
    if resets and axes is not None:
        shape = [{"B": batch, "T": steps}[axis] for axis in axes]
        drawn = [torch.rand(*shape, heads, dim, **on).to(wx.dtype) + 0.5 for _ in cell.states]
        if form == "stored":
            values = [v.masked_fill((~reset | pad)[..., None, None], NAN) for v in drawn]
        else:
            values = [v.requires_grad_() for v in drawn]
    given = {"lengths": counts if lengths else None, "reset": reset if resets else None}
    return given | {"reset_to": values}, pad
