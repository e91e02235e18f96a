"""CUDA kernels of a plan, called on torch tensors; the plan is the caller's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan
from ..call.facts import facts_of
from ..call.requests import LayerBackward
from ..call.tensors import Forward, Gradients, ScanInputs
from ..program.gemms import called_sums, gates_again, recurrent_sums
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

    wx is not copied where gates, units and heads are contiguous; if it is `donated`, nobody reads
    it again, and the saved gates may take its memory. `stored` says which states are returned at
    all steps, None for all. `reset_to` has the values after a reset, with masks. `run` takes the
    place of the launcher's `run`; it may launch later.
    """
    counts, facts, staged = ready.counts, facts_of(ready.cell), ready.cell.has_stages
    wx, R, b = rows_packed(inputs.wx), packed_or_none(inputs.R), packed_or_none(inputs.b)
    initial_states = [packed(s) for s in inputs.initial_states]
    R_diag, params = packed_or_none(inputs.R_diag), [packed(p) for p in inputs.params]
    batch, steps, heads, dim, _ = wx.shape
    unweighted = _as_copied(ready.cell, inputs.unweighted, (heads, dim))
    stored = stored or (True,) * counts.states
    states = [wx.new_empty(steps if s else 0, batch, heads, dim) for s in stored]
    to = inputs.to
    if to is not None and to.output is not None:
        states[0] = to.output
    last = list(to.last) if to else [torch.empty_like(s) for s in initial_states]
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
        *(wx.stride(1), wx.stride(0), wx, R, R_diag, b),
        *(params or (None,)),
        *(*initial_states, *states, *last, values),
        *(unweighted_fields(unweighted) if unweighted else ()),
        *(mask_fields(inputs.masks, without_gaps(reset_to)) if inputs.masks else ()),
        *((statistics,) if staged else ()),
    )
    if last[0].numel():
        with on_device(wx.device):
            launched(ready, lambda own: _running(own, run)(arguments, R, wx, steps), steps)
    return Forward(states, last, saved)


class Backward:
    """Backward of a direction whose buffers are allocated: `launch` gives what `finish` sums.

    Args:
        asked: what it reads. Gradients at all steps are not copied where units and heads are
            contiguous. If it is donated, d_wx may take the memory of what was saved.
        multiplier: for the sums over time.
        reset_to: the values of each state after a reset; needed only with masks.
        run: takes the place of the launcher's `run`; it may launch later.
    """

    d_wx: Tensor  # (T, B, N, D, Gx), once launched

    def __init__(
        self,
        ready: Prepared,
        asked: LayerBackward,
        *,
        multiplier: Multiplier = TORCH,
        reset_to: Sequence[Tensor] = (),
        run: RunKernels | None = None,
    ) -> None:
        saved, counts = asked.saved, ready.counts
        like = saved.initial_states[0]
        self._ready, self._saved, self._multiplier, self._run = ready, saved, multiplier, run
        self._reset_to = without_gaps(reset_to) if saved.masks else ()
        batch, heads, dim = like.shape
        steps = saved.wx.shape[1] if saved.again else len(saved.saved)
        self._steps, self._sizes = steps, (batch, heads, dim)
        self._states = [packed(s) for s in saved.states]
        self._initial_states = [packed(s) for s in saved.initial_states]
        self._read = read = self._read_by(ready.plan)
        # Safe in place: the thread that reads a saved value later writes a gradient over it. What
        # called gates multiplied is read after that, by the sums over time.
        shape, mine = (steps, batch, heads, dim, counts.inputs), asked.donated or read.is_new
        mine = mine and not facts_of(ready.cell).called
        self._may_overwrite, self._shape = mine and read.values.shape == shape, shape
        others = counts.gradients - counts.inputs
        self._d_others = like.new_empty(*shape[:-1], others) if others else None
        self._R, self._R_diag = packed_or_none(saved.R), packed_or_none(saved.R_diag)
        self._params = [packed(p) for p in saved.params]
        self._d_initial_states = [torch.empty_like(s) for s in self._initial_states]
        self._d_states = [None if d is None else rows_packed(d) for d in asked.d_states]
        self._d_last = [None if d is None else d.contiguous() for d in asked.d_last]
        self._unweighted = _as_copied(ready.cell, saved.unweighted, (heads, dim))
        self._d_reset_to: list[Tensor | None] = [None] * counts.states

    @property
    def _d_gates(self) -> tuple[Tensor, Tensor]:
        """The gradients of gates with input and of others; any tensor where there are none."""
        return self.d_wx, self.d_wx if self._d_others is None else self._d_others

    def _read_by(self, plan: KernelPlan) -> _Read:
        """Return what a kernel of a plan reads of the forward."""
        saved = self._saved
        if not saved.again:
            given = packed(saved.saved)
            values, statistics = saved_parts(facts_of(self._ready.cell), given, self._sizes[2])
            return _Read(values, given is not saved.saved, statistics)
        if plan.gates_again:
            wx = rows_packed(saved.wx)
            inputs = wx.stride(1), wx.stride(0), wx, packed_or_none(saved.b)
            return _Read(saved.saved, False, inputs=inputs)
        states, firsts = self._states_read()
        read = replace(saved, states=states, initial_states=firsts)
        reverse = self._ready.plan.reverse
        return _Read(gates_again(self._ready.cell, read, self._multiplier, reverse), True)

    def _states_read(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return states and those before the first step as products over all steps read them."""
        cell, masks, states = self._ready.cell, self._saved.masks, self._states
        if masks is None:
            return states, self._initial_states
        reverse = self._ready.plan.reverse
        return states_read(cell, masks, states, self._initial_states, self._reset_to, reverse)

    def run(self) -> Gradients:
        """Run all steps backwards, then the sums over time."""
        with on_device(self._initial_states[0].device):
            sums = self.start()
        return self.finish(sums)

    def start(self) -> Tensor:
        """Run all steps by the plan, or by one that has room; return what `finish` takes."""
        return launched(self._ready, self.launch, self._steps)

    def launch(self, ready: Prepared) -> Tensor:
        """Run all steps backwards by a plan; return partial sums over time."""
        counts, plan, masks = ready.counts, ready.plan, self._saved.masks
        in_place, like = self._may_overwrite and plan.gradients_in_place, self._initial_states[0]
        self.d_wx = self._read.values if in_place else like.new_empty(self._shape)
        # As `SumOverTime` of the kernels: parts of a sum are added in double, except for two bytes.
        real = torch.float32 if like.element_size() == 2 else torch.float64
        batch, heads, dim = self._sizes
        if masks is not None and masks.learned:
            each = batch, plan.parts_of_resets(self._steps), heads, dim
            self._d_reset_to = [like.new_zeros(each, dtype=real) for _ in self._d_reset_to]
        if not batch * heads * dim:
            return like.new_zeros(0, sum(counts.sums), heads, dim, dtype=real)
        # Each kernel writes its sums with step 0.
        new = like.new_empty if self._steps else like.new_zeros
        parts = plan.parts_of_sums(batch, self._steps)
        sums = new(parts, sum(counts.sums), heads, dim, dtype=real)
        same = plan.gates_again == self._ready.plan.gates_again
        matrix, read = ready.launcher.matrix(self._R), self._read if same else self._read_by(plan)
        arguments = filled(
            ready.arguments,
            *(self._steps, batch, heads, dim, 0, 0, watchdog_bound()),
            *(0 if d is None else d.stride(axis) for axis in (0, 1) for d in self._d_states),
            *(matrix, self._R_diag, *(self._params or (None,))),
            *(*self._initial_states, *self._states, read.values, *self._d_states, *self._d_last),
            *(*self._d_gates, *self._d_initial_states),
            sums,
            *(unweighted_fields(self._unweighted) if self._unweighted else ()),
            *((*mask_fields(masks, self._reset_to), *self._d_reset_to) if masks else ()),
            *((read.statistics,) if ready.cell.has_stages else ()),
            *read.inputs,
        )
        if in_place and not self._read.is_new:
            # From here on it holds gradients: its version tells whoever would read it again.
            overwrite(self.d_wx)
        _running(ready, self._run)(arguments, matrix, self._initial_states[0], self._steps)
        return sums

    def finish(self, sums: Tensor) -> Gradients:
        """Return the gradients, after the products and sums over time."""
        saved, counts, like = self._saved, self._ready.counts, self.d_wx
        facts, kept = facts_of(self._ready.cell), (self._states, self._initial_states)
        wanted, called = ((), []) if saved.apart else (self._ready.products, facts.called)
        # Of a cell without matrices no product reads states, and its kernel has summed the rest.
        states, firsts = self._states_read() if wanted or called else kept
        (_, heads, dim), gates, reverse = self._sizes, self._d_gates, self._ready.plan.reverse
        zero = saved.known_zero or (False,) * counts.states
        before = [None if z else s for z, s in zip(zero, firsts, strict=True)]
        by_head = saved.by_head or reverse == "half"
        matrices = sum(len(product.pairs) for product in wanted) + len(called)
        d_R = new_of_heads(like, (matrices, heads, dim, dim), 1, by_head)
        left = recurrent_sums(d_R, wanted, *gates, states, before, self._multiplier, reverse)
        left += called_sums(d_R, called, *gates, self._read.values, self._multiplier)
        jobs, summed = [Job(*each) for each in left], []
        # Tensors of their own: an operator may not return views of one tensor.
        each = by_head, False, by_head  # of biases, params, and diagonal weights
        for to, filling in jobs_of_splits(sums, counts.sums, like, each):
            summed.append(to)
            jobs += filling
        rearrange(jobs)
        d_b, d_params, d_R_diag = summed
        return Gradients(
            d_wx=self.d_wx.transpose(0, 1),
            d_R=d_R,
            d_b=d_b,
            d_initial_states=self._d_initial_states,
            d_R_diag=d_R_diag,
            d_params=d_params,
            d_reset_to=[_summed(d, like) for d in self._d_reset_to if d is not None] or None,
            d_others=None if self._d_others is None else self._d_others.transpose(0, 1),
        )


class _Read(NamedTuple):
    """Values of each step that a backward kernel reads.

    Attributes:
        values: saved by the forward, or gates that products computed again; of no meaning to a
            kernel that computes gates itself.
        is_new: whether nobody else reads `values`.
        statistics: of stages.
        inputs: what a kernel computes gates from: strides of wx, wx and biases.
    """

    values: Tensor
    is_new: bool
    statistics: Tensor | None = None
    inputs: tuple[int | Tensor | None, ...] = ()


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
