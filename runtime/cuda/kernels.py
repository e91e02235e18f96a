"""CUDA kernels of a plan, called on torch tensors; the plan is the caller's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.shape import Reverse
from ..call.facts import facts_of
from ..call.tensors import Forward, Gradients, Saved, ScanInputs
from ..program.called_sums import called_sums
from ..program.gemms import gates_again, recurrent_sums
from ..program.multiplier import TORCH, Multiplier
from ..program.recorder import overwrite, refuse_recording
from .arguments import unweighted_fields
from .driver.streams import on_device
from .launch import filled
from .prepared import Prepared, launched
from .products.masks import mask_fields, states_read, without_gaps
from .products.rearrange import (
    Job,
    jobs_of_splits,
    new_of_heads,
    packed,
    packed_or_none,
    rearrange,
    rows_packed,
)
from .saved import saved_parts, saved_shape
from .watchdog import watchdog_bound

# Partial sums that a launch of `rearrange` adds at most: it has a thread per result.
_MOST_PARTS = 64

# Runs all steps of a direction, as `Launcher.run` does.
RunKernels = Callable[[ctypes.Structure, Tensor | None, Tensor, int], None]


def forward(
    ready: Prepared,
    inputs: ScanInputs,
    *,
    for_backward: bool = True,
    stored: Sequence[bool] | None = None,
    donated: bool = False,
    reset_to: Sequence[Tensor] = (),
    run: RunKernels | None = None,
) -> Forward:
    """Run all steps, on the tensors' device and torch's current stream.

    Args:
        inputs: wx is not copied where gates, units and heads are contiguous.
        stored: which states are returned at all steps; None for all.
        donated: whether nobody reads wx again: then the saved gates may take its memory.
        reset_to: the values of each state after a reset; needed only with masks.
        run: takes the place of the launcher's `run`; it may launch later.
    """
    counts, facts, staged = ready.counts, facts_of(ready.cell), ready.cell.has_stages
    wx, R, b = rows_packed(inputs.wx), packed_or_none(inputs.R), packed_or_none(inputs.b)
    initial_states = [packed(s) for s in inputs.initial_states]
    R_diag, params = packed_or_none(inputs.R_diag), [packed(p) for p in inputs.params]
    batch, steps, heads, dim, _ = wx.shape
    unweighted = _as_copied(ready.cell, inputs.unweighted, (heads, dim))
    stored = stored or (True,) * counts.states
    states = [wx.new_empty(steps if s else 0, batch, heads, dim) for s in stored]
    last = [torch.empty_like(s) for s in initial_states]
    saves_gates = for_backward and ready.plan.save == "gates"
    shape = saved_shape(facts, (steps if saves_gates else 0, batch, heads, dim))
    in_order = wx.transpose(0, 1)
    # Safe in place: the block that reads an input later saves a value in place of it, and has
    # received the input by then. A stage may save what a later one has not read.
    in_place = donated and not staged and in_order.shape == shape and in_order.is_contiguous()
    saved = in_order if in_place else wx.new_empty(shape)
    values, statistics = saved_parts(facts, saved, dim)
    arguments = filled(
        ready.arguments,
        *(steps, batch, heads, dim, 0, 0, watchdog_bound()),
        *(wx.stride(1), wx.stride(0)),
        *(wx, R, R_diag, b),
        *(params or (None,)),
        *(*initial_states, *states, *last, values),
        *(unweighted_fields(unweighted) if unweighted else ()),
        *(mask_fields(inputs.masks, without_gaps(reset_to)) if inputs.masks else ()),
        *((statistics,) if staged else ()),
    )

    def launch(ready: Prepared) -> None:
        _running(ready, run)(arguments, R, wx, steps)

    if last[0].numel():
        with on_device(wx.device):
            launched(ready, launch, steps)
    return Forward(states, last, saved)


def backward(ready: Prepared, parts: BackwardParts) -> Gradients:
    """Run all steps backwards, then the sums over time, of what `backward_parts` gave."""
    with on_device(parts.d_wx.device):
        sums = launched(ready, parts.launch, parts.steps)
    return parts.finish(sums)


class BackwardParts(NamedTuple):
    """Backward whose buffers are allocated; `launch` gives what `finish` sums over time."""

    steps: int
    d_wx: Tensor
    launch: Callable[[Prepared], Tensor]
    finish: Callable[[Tensor], Gradients]


def backward_parts(
    ready: Prepared,
    saved: Saved,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    *,
    multiplier: Multiplier = TORCH,
    donated: bool = False,
    reset_to: Sequence[Tensor] = (),
    run: RunKernels | None = None,
) -> BackwardParts:
    """Allocate what a backward needs; its launch and the sums over time are left to the caller.

    Args:
        d_states: the gradient of each state at all steps, (T, B, N, D), or None for zero; not
            copied where units and heads are contiguous.
        d_last: the gradient of each last state, (B, N, D), or None for zero.
        multiplier: for the sums over time.
        donated: whether nobody reads `saved.saved` again: then d_wx may take its memory.
        reset_to: the values of each state after a reset; needed only with masks.
        run: takes the place of the launcher's `run`; it may launch later.
    """
    cell, counts, like = ready.cell, ready.counts, saved.initial_states[0]
    facts, statistics = facts_of(cell), None
    reverse, masks = ready.plan.reverse, saved.masks
    reset_to = without_gaps(reset_to) if masks else ()
    batch, heads, dim = like.shape
    steps = saved.saved.shape[0] if saved.wx is None else saved.wx.shape[1]
    values = saved.saved  # of no meaning where kernels compute the gates again
    if saved.wx is None:
        values, statistics = saved_parts(facts, packed(saved.saved), dim)

    def gates() -> Tensor:
        return gates_again(cell, _as_read(cell, saved, reset_to, reverse), multiplier, reverse)

    if saved.wx is not None and not ready.plan.gates_again:
        values = gates()
    # Safe in place: the thread that reads a saved value later writes a gradient over it. What
    # stages saved is read after them too.
    in_place = (
        not cell.has_stages
        and (donated or values is not saved.saved)
        and values.shape == (steps, batch, heads, dim, counts.inputs)
    )
    d_wx = values if in_place else like.new_empty(steps, batch, heads, dim, counts.inputs)
    d_gates_no_input, others = d_wx, counts.gradients - counts.inputs  # of no use, if none
    if others:
        d_gates_no_input = like.new_empty(steps, batch, heads, dim, others)
    R, R_diag = packed_or_none(saved.R), packed_or_none(saved.R_diag)
    params, states = [packed(p) for p in saved.params], [packed(s) for s in saved.states]
    initial_states = [packed(s) for s in saved.initial_states]
    d_initial_states = [torch.empty_like(s) for s in initial_states]
    d_states = [None if d is None else rows_packed(d) for d in d_states]
    d_last = [None if d is None else d.contiguous() for d in d_last]
    unweighted = _as_copied(cell, saved.unweighted, (heads, dim))
    # As `SumOverTime` of the kernels: parts of a sum are added in double, except for two bytes.
    real = torch.float32 if like.element_size() == 2 else torch.float64
    d_reset_to: list[Tensor | None] = [None] * counts.states

    def launch(ready: Prepared) -> Tensor:
        if masks is not None and masks.learned:
            each = batch, ready.plan.parts_of_resets(steps), heads, dim
            d_reset_to[:] = [like.new_zeros(each, dtype=real) for _ in d_reset_to]
        if not like.numel():  # no rows or units
            return like.new_zeros(0, sum(counts.sums), heads, dim, dtype=real)
        # Each kernel writes its sums with step 0.
        new = like.new_empty if steps else like.new_zeros
        parts = ready.plan.parts_of_sums(batch, steps)
        sums = new(parts, sum(counts.sums), heads, dim, dtype=real)
        matrix, read = ready.launcher.matrix(R), values
        inputs: tuple[int | Tensor | None, ...] = ()
        if saved.wx is not None and ready.plan.gates_again:
            wx = rows_packed(saved.wx)
            inputs = wx.stride(1), wx.stride(0), wx, packed_or_none(saved.b)
        elif saved.wx is not None and values is saved.saved:
            read = gates()  # of another plan, which steps in
        arguments = filled(
            ready.arguments,
            *(steps, batch, heads, dim, 0, 0, watchdog_bound()),
            *(0 if d is None else d.stride(0) for d in d_states),
            *(0 if d is None else d.stride(1) for d in d_states),
            *(matrix, R_diag),
            *(params or (None,)),
            *(*initial_states, *states, read, *d_states, *d_last),
            *(d_wx, d_gates_no_input, *d_initial_states),
            sums,
            *(unweighted_fields(unweighted) if unweighted else ()),
            *((*mask_fields(masks, reset_to), *d_reset_to) if masks else ()),
            *((statistics,) if cell.has_stages else ()),
            *inputs,
        )
        if in_place and values is saved.saved:
            # From here on it holds gradients: its version tells whoever would read it again.
            overwrite(values)
        _running(ready, run)(arguments, matrix, like, steps)
        return sums

    zero = saved.known_zero or (False,) * counts.states

    def finish(sums: Tensor) -> Gradients:
        gates, factors, wanted = (d_wx, d_gates_no_input), (states, initial_states), ready.products
        called = facts.called
        if saved.apart:
            wanted, called = (), []
        elif masks is not None:
            read = _as_read(cell, saved, reset_to, reverse)
            factors = [*read.states], [*read.initial_states]
        before = [None if z else s for z, s in zip(zero, factors[1], strict=True)]
        by_head = saved.by_head or reverse == "half"
        matrices = sum(len(product.pairs) for product in wanted) + len(called)
        d_R = new_of_heads(like, (matrices, heads, dim, dim), 1, by_head)
        left = recurrent_sums(d_R, wanted, *gates, factors[0], before, multiplier, reverse)
        left += called_sums(d_R, called, *gates, values, multiplier)
        jobs, summed = [Job(*each) for each in left], []
        # Tensors of their own: an operator may not return views of one tensor.
        if len(sums) > _MOST_PARTS:
            sums = sums.sum(0, keepdim=True)
        each = by_head, False, by_head  # of biases, params, and diagonal weights
        for to, filling in jobs_of_splits(sums, counts.sums, like, each):
            summed.append(to)
            jobs += filling
        rearrange(jobs)
        d_b, d_params, d_R_diag = summed
        return Gradients(
            d_wx=d_wx.transpose(0, 1),
            d_R=d_R,
            d_b=d_b,
            d_initial_states=d_initial_states,
            d_R_diag=d_R_diag,
            d_params=d_params,
            d_reset_to=[_summed(d, like) for d in d_reset_to if d is not None] or None,
            d_others=d_gates_no_input.transpose(0, 1) if others else None,
        )

    return BackwardParts(steps, d_wx, launch, finish)


def _as_copied(
    cell: CellSpec, unweighted: Sequence[Tensor], plane: tuple[int, int]
) -> Sequence[Tensor]:
    """Return the cell's inputs that no weight multiplies, in the form that its kernels copy.

    If calls draw all of them, the units of a row have no gaps. What a call draws has none; what a
    caller passes instead is copied if it has.
    """
    if not cell.draws_all_inputs:
        return unweighted
    return [rows_packed(given.expand(-1, -1, *plane)) for given in unweighted]


def _running(ready: Prepared, run: RunKernels | None) -> RunKernels:
    """Return the function that runs a direction's kernels: the launcher's, unless one is given."""
    if run is None and not ready.launcher.recorded:
        refuse_recording()
    return run or ready.launcher.run


def _summed(parts: Tensor, like: Tensor) -> Tensor:
    """Return the sums of parts, (B, parts, N, D), added in order."""
    return (parts[:, 0] if parts.shape[1] == 1 else parts.sum(1)).to(like.dtype)


def _as_read(cell: CellSpec, saved: Saved, reset_to: Sequence[Tensor], reverse: Reverse) -> Saved:
    """Return the tensors that a forward saved, with states as products over all steps read them."""
    if saved.masks is None:
        return saved
    states, firsts = ([packed(t) for t in s] for s in (saved.states, saved.initial_states))
    read = states_read(cell, saved.masks, states, firsts, reset_to, reverse)
    return replace(saved, states=read[0], initial_states=read[1])
