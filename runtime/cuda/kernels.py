"""The CUDA kernels, called on torch tensors: plans, arguments, and sums that end in GEMMs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ...cellspec.cell import CellSpec
from ...codegen.cuda.alternating.plan import AlternatingPlan
from ...codegen.cuda.mixed_plan import CallPlan
from ...codegen.layout import layout_of
from ...codegen.plan import CudaPlan
from ..cpu.kernels import Forward, Gradients
from ..gemms import gates_again, recurrent_gradient
from ..store.facts import facts_of
from .alternating.run import run_alternating
from .arguments import backward_arguments, filled, forward_arguments
from .choose import Choice, choose_plan
from .driver.device import on_device
from .launch_grid import parts_of_sums
from .precision import tf32_allowed
from .resident import Sizes, recurrent_matrix, run_fused
from .step_down import with_room
from .watchdog import watchdog_bound

_WIDEST_ACCESS = 16  # bytes


def forward(
    cell: CellSpec,
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    keep: bool,
    stored: Sequence[bool],
    choice: Choice,
    plan: CallPlan | None = None,
) -> Forward:
    """Run all steps, on the tensors' device and torch's current stream.

    Args:
        cell: the cell.
        wx: (B, T, N, D, Gx); not copied where a unit's gates, units and heads are neighbours.
        R: (Gr, N, D, D), where the cell has dense gates.
        R_diag: (Gd, N, D), where it has diagonal gates.
        b: (Gb, N, D), or None for no bias.
        params: (N, D) each.
        initial: the states before the first step, (B, N, D) each.
        keep: whether a backward pass may follow.
        stored: which states are returned at all steps.
        choice: of the kernels.
        plan: what to run in place of what the choice leads to.
    """
    layout = layout_of(cell)
    batch, steps, heads, dim, _ = wx.shape
    asked = None
    if plan is None:
        asked = (
            *(cell, heads, dim, batch, wx.dtype, wx.device.index),
            *(choice, tf32_allowed(wx.dtype)),
        )
        plan = choose_plan(*asked, "forward")
    wx = _side_by_side(wx)
    R, R_diag, b = (None if t is None else _packed(t) for t in (R, R_diag, b))
    params, initial = [_packed(p) for p in params], [_packed(s) for s in initial]
    states = [wx.new_empty(steps if s else 0, batch, heads, dim) for s in stored]
    last = [torch.empty_like(s) for s in initial]
    keep_gates = keep and choice.save == "gates"
    saved = len(facts_of(cell).saved)
    kept = wx.new_empty(steps if keep_gates else 0, batch, heads, dim, saved)
    arguments = filled(
        forward_arguments(len(layout.states), len(layout.params)),
        *(steps, batch, heads, dim, 0, 0, watchdog_bound()),
        *(wx.stride(1), wx.stride(0)),
        *(wx, R, R_diag, b),
        *(params or (None,)),
        *(*initial, *states, *last, kept),
    )
    sizes = Sizes(steps, batch, heads)

    def run(own: CudaPlan) -> None:
        if isinstance(own, AlternatingPlan):
            run_alternating(cell, own, arguments, R, wx, (*sizes, dim), forward=True)
        else:
            run_fused(cell, own, arguments, wx, sizes, forward=True)

    if last[0].numel():
        with on_device(wx.device):
            with_room(plan.of("forward"), run, "forward", sizes, asked)
    return Forward(states, last, kept)


def backward(
    cell: CellSpec,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    wx: Tensor | None,
    b: Tensor | None,
    R: Tensor | None,
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    states: Sequence[Tensor],
    kept: Tensor,
    choice: Choice,
    plan: CallPlan | None = None,
    donated: bool = False,
) -> Gradients:
    """Run all steps backwards, then the sums over time.

    Args:
        cell: the cell.
        d_states: the gradient of each state at all steps, (T, B, N, D), or None for zero; not
            copied where units and heads are neighbours.
        d_last: the gradient of each last state, (B, N, D), or None for zero.
        wx: as in `forward`, where only states were kept.
        b: likewise.
        R: as in `forward`.
        R_diag: as in `forward`.
        params: as in `forward`.
        initial: as in `forward`.
        states: what `forward` left.
        kept: what `forward` left.
        choice: of the kernels.
        plan: what to run in place of what the choice leads to.
        donated: whether nobody reads `kept` again: then d_wx may take its memory.
    """
    layout = layout_of(cell)
    like = initial[0]
    batch, heads, dim = like.shape
    steps = kept.shape[0] if wx is None else wx.shape[1]
    asked = None
    if plan is None:
        asked = (
            *(cell, heads, dim, batch, like.dtype, like.device.index),
            *(choice, tf32_allowed(like.dtype)),
        )
        plan = choose_plan(*asked, "backward")
    inputs, gates = len(layout.input_gates), len(layout.gates)
    # As `SumOverTime` of the kernels: but for short types, parts of a sum over time are added in
    # double.
    real = torch.float32 if like.element_size() == 2 else torch.float64
    counts = [len(layout.bias), len(layout.params), len(layout.diagonal_gates)]
    given, kept = kept, _packed(kept)
    if wx is not None:
        kept = gates_again(cell, wx, b, R, R_diag, initial, states)
    # Who reads a kept value is who writes the gradients of the same unit, row and step, afterwards.
    in_place = (donated or kept is not given) and kept.shape[-1] == inputs
    d_wx = kept if in_place else like.new_empty(steps, batch, heads, dim, inputs)
    d_rest = like.new_empty(steps, batch, heads, dim, gates - inputs)
    params, initial = [_packed(p) for p in params], [_packed(s) for s in initial]
    states = [_packed(s) for s in states]
    d_initial = [torch.empty_like(s) for s in initial]
    R, R_diag = (None if t is None else _packed(t) for t in (R, R_diag))
    d_states = [None if d is None else _side_by_side(d) for d in d_states]
    d_last = [None if d is None else d.contiguous() for d in d_last]
    sizes = Sizes(steps, batch, heads)

    def run(own: CudaPlan) -> Tensor:
        # Each kernel leaves its sums with step 0.
        new = like.new_empty if steps else like.new_zeros
        sums = new(parts_of_sums(own, batch), sum(counts), heads, dim, dtype=real)
        matrix = recurrent_matrix(own, R)
        arguments = filled(
            backward_arguments(len(layout.states), len(layout.params)),
            *(steps, batch, heads, dim, 0, 0, watchdog_bound()),
            *(0 if d is None else d.stride(0) for d in d_states),
            *(0 if d is None else d.stride(1) for d in d_states),
            *(matrix, R_diag),
            *(params or (None,)),
            *(*initial, *states, kept, *d_states, *d_last),
            *(d_wx, d_rest, *d_initial, sums),
        )
        if in_place and kept is given:
            # From here on it holds gradients: its version tells whoever would read it again.
            increment_version(kept)
        if isinstance(own, AlternatingPlan):
            run_alternating(cell, own, arguments, matrix, like, (*sizes, dim), forward=False)
        else:
            run_fused(cell, own, arguments, like, sizes, forward=False)
        return sums

    if like.numel():
        with on_device(like.device):
            sums = with_room(plan.of("backward"), run, "backward", sizes, asked)
    else:
        sums = like.new_zeros(0, sum(counts), heads, dim, dtype=real)
    # Each part is summed by itself: an operator may not return views of one tensor.
    parts = torch.split(sums, counts, dim=1)
    d_b, d_params, d_R_diag = (
        part.sum(0).to(like.dtype) if count else like.new_empty(0, heads, dim)
        for part, count in zip(parts, counts, strict=True)
    )
    return Gradients(
        d_wx=d_wx,
        d_R=recurrent_gradient(layout, d_wx, d_rest, states, initial),
        d_R_diag=d_R_diag,
        d_b=d_b,
        d_params=d_params,
        d_initial=d_initial,
    )


def _packed(tensor: Tensor) -> Tensor:
    """The tensor without gaps, beginning where wide accesses can; a copy where it is not so."""
    if tensor.is_contiguous() and tensor.data_ptr() % _WIDEST_ACCESS == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _side_by_side(tensor: Tensor) -> Tensor:
    """The tensor, whose first two axes are rows and steps; copied where the others are not packed
    one after the other or rows do not begin where wide accesses can.
    """
    width = _WIDEST_ACCESS // tensor.element_size()
    packed = 1  # what the stride of an axis is where those inside it have no gaps
    for size, stride in zip(tensor.shape[:1:-1], tensor.stride()[:1:-1], strict=True):
        if size > 1 and stride != packed:
            return tensor.contiguous()
        packed *= size
    step = math.gcd(width, packed)
    outer = tensor.stride()[:2]
    if tensor.data_ptr() % _WIDEST_ACCESS or outer[0] % step or outer[1] % step:
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor
