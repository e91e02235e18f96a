"""The CUDA kernels of a plan, called on torch tensors; the plan is the caller's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ...cellspec.cell import CellSpec
from ...codegen.cuda.alternating.plan import AlternatingPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.layout import layout_of
from ..gemms import gates_again, recurrent_gradient
from ..store.facts import facts_of
from ..tensors import Forward, Gradients, Saved, ScanInputs
from .alternating.run import run_alternating
from .arguments import backward_arguments, filled, forward_arguments
from .driver.device import on_device
from .launch_grid import parts_of_sums
from .resident import Sizes, recurrent_matrix, run_resident
from .watchdog import watchdog_bound

_WIDEST_ACCESS = 16  # bytes

Result = TypeVar("Result")


class Attempt(Protocol):
    """Launches a plan's kernels, by a function that launches those of a plan that it is given.

    It may launch another plan if the first raises an error. What a call allocates and computes
    besides its launch happens once, outside of it.
    """

    def __call__(self, plan: KernelPlan, launch: Callable[[KernelPlan], Result]) -> Result:
        """Launch, and return what `launch` gives."""


def once(plan: KernelPlan, launch: Callable[[KernelPlan], Result]) -> Result:
    """Launch a plan and no other.

    Args:
        plan: the plan.
        launch: launches the kernels of a plan.
    """
    return launch(plan)


def forward(
    cell: CellSpec,
    plan: KernelPlan,
    inputs: ScanInputs,
    *,
    for_backward: bool = True,
    stored: Sequence[bool] | None = None,
    attempt: Attempt = once,
) -> Forward:
    """Run all steps, on the tensors' device and torch's current stream.

    Args:
        cell: the cell.
        plan: of the forward kernel.
        inputs: of the call; wx is not copied where gates, units and heads are contiguous.
        for_backward: whether a backward may follow.
        stored: which states are returned at all steps; None for all.
        attempt: launches the plan.
    """
    counts = _counts(cell)
    wx, R, b = _rows_packed(inputs.wx), _packed_or_none(inputs.R), _packed_or_none(inputs.b)
    initial_states = [_packed(s) for s in inputs.initial_states]
    R_diag, params = _packed_or_none(inputs.R_diag), [_packed(p) for p in inputs.params]
    batch, steps, heads, dim, _ = wx.shape
    stored = stored or (True,) * counts.states
    states = [wx.new_empty(steps if s else 0, batch, heads, dim) for s in stored]
    last = [torch.empty_like(s) for s in initial_states]
    saves_gates = for_backward and plan.save == "gates"
    saved = wx.new_empty(steps if saves_gates else 0, batch, heads, dim, counts.saved)
    arguments = filled(
        forward_arguments(counts.states, counts.params),
        *(steps, batch, heads, dim, 0, 0, watchdog_bound()),
        *(wx.stride(1), wx.stride(0)),
        *(wx, R, R_diag, b),
        *(params or (None,)),
        *(*initial_states, *states, *last, saved),
    )
    sizes = Sizes(steps, batch, heads)

    def launch(plan: KernelPlan) -> None:
        if isinstance(plan, AlternatingPlan):
            run_alternating(cell, plan, arguments, R, wx, (*sizes, dim))
        else:
            run_resident(cell, plan, arguments, wx, sizes)

    if last[0].numel():
        with on_device(wx.device):
            attempt(plan, launch)
    return Forward(states, last, saved)


def backward(
    cell: CellSpec,
    plan: KernelPlan,
    saved: Saved,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    *,
    donated: bool = False,
    attempt: Attempt = once,
) -> Gradients:
    """Run all steps backwards, then the sums over time.

    Args:
        cell: the cell.
        plan: of the backward kernel.
        saved: of the forward.
        d_states: the gradient of each state at all steps, (T, B, N, D), or None for zero; not
            copied where units and heads are contiguous.
        d_last: the gradient of each last state, (B, N, D), or None for zero.
        donated: whether nobody reads `saved.saved` again: then d_wx may take its memory.
        attempt: launches the plan.
    """
    counts, like = _counts(cell), saved.initial_states[0]
    batch, heads, dim = like.shape
    steps = saved.saved.shape[0] if saved.wx is None else saved.wx.shape[1]
    values = _packed(saved.saved) if saved.wx is None else gates_again(cell, saved)
    # Safe in place: the thread that reads a saved value later writes the gradient of the same
    # element.
    in_place = (donated or values is not saved.saved) and values.shape[-1] == counts.inputs
    d_wx = values if in_place else like.new_empty(steps, batch, heads, dim, counts.inputs)
    d_gates_no_input = like.new_empty(steps, batch, heads, dim, counts.gates - counts.inputs)
    R, R_diag = _packed_or_none(saved.R), _packed_or_none(saved.R_diag)
    params, states = [_packed(p) for p in saved.params], [_packed(s) for s in saved.states]
    initial_states = [_packed(s) for s in saved.initial_states]
    d_initial_states = [torch.empty_like(s) for s in initial_states]
    d_states = [None if d is None else _rows_packed(d) for d in d_states]
    d_last = [None if d is None else d.contiguous() for d in d_last]
    # As `SumOverTime` of the kernels: parts of a sum over time are added in double, except for
    # two-byte elements.
    real = torch.float32 if like.element_size() == 2 else torch.float64
    sizes = Sizes(steps, batch, heads)

    def launch(plan: KernelPlan) -> Tensor:
        # Each kernel writes its sums with step 0.
        new = like.new_empty if steps else like.new_zeros
        sums = new(parts_of_sums(plan, batch), sum(counts.sums), heads, dim, dtype=real)
        matrix = recurrent_matrix(plan, R)
        arguments = filled(
            backward_arguments(counts.states, counts.params),
            *(steps, batch, heads, dim, 0, 0, watchdog_bound()),
            *(0 if d is None else d.stride(0) for d in d_states),
            *(0 if d is None else d.stride(1) for d in d_states),
            *(matrix, R_diag),
            *(params or (None,)),
            *(*initial_states, *states, values, *d_states, *d_last),
            *(d_wx, d_gates_no_input, *d_initial_states, sums),
        )
        if in_place and values is saved.saved:
            # From here on it holds gradients: its version tells whoever would read it again.
            increment_version(values)
        if isinstance(plan, AlternatingPlan):
            run_alternating(cell, plan, arguments, matrix, like, (*sizes, dim))
        else:
            run_resident(cell, plan, arguments, like, sizes)
        return sums

    if like.numel():
        with on_device(like.device):
            sums = attempt(plan, launch)
    else:
        sums = like.new_zeros(0, sum(counts.sums), heads, dim, dtype=real)
    # Each part is summed by itself: an operator may not return views of one tensor.
    parts = torch.split(sums, counts.sums, dim=1)
    d_b, d_params, d_R_diag = (
        part.sum(0).to(like.dtype) if count else like.new_empty(0, heads, dim)
        for part, count in zip(parts, counts.sums, strict=True)
    )
    return Gradients(
        d_wx=d_wx.transpose(0, 1),
        d_R=recurrent_gradient(cell, d_wx, d_gates_no_input, states, initial_states),
        d_b=d_b,
        d_initial_states=d_initial_states,
        d_R_diag=d_R_diag,
        d_params=d_params,
    )


class _Counts(NamedTuple):
    """How many of each a cell has; `sums` counts the sums over time: bias, params, diagonal."""

    states: int
    inputs: int
    gates: int
    params: int
    saved: int
    sums: list[int]


@lru_cache(maxsize=512)
def _counts(cell: CellSpec) -> _Counts:
    layout = layout_of(cell)
    params = len(layout.params)
    return _Counts(
        len(layout.states),
        len(layout.input_gates),
        len(layout.gates),
        params,
        len(facts_of(cell).saved),
        [len(layout.bias), params, len(layout.diagonal_gates)],
    )


def _packed_or_none(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _packed(tensor)


def _packed(tensor: Tensor) -> Tensor:
    """The tensor, contiguous and aligned for wide accesses; a copy if it is not."""
    if tensor.is_contiguous() and tensor.data_ptr() % _WIDEST_ACCESS == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _rows_packed(tensor: Tensor) -> Tensor:
    """The tensor, whose first two axes are rows and steps; a copy if the other axes are not
    contiguous, or a row is not aligned for wide accesses.
    """
    width = _WIDEST_ACCESS // tensor.element_size()
    packed = 1  # the stride of a contiguous axis
    for size, stride in zip(tensor.shape[:1:-1], tensor.stride()[:1:-1], strict=True):
        if size > 1 and stride != packed:
            return tensor.contiguous()
        packed *= size
    step = math.gcd(width, packed)
    outer = tensor.stride()[:2]
    if tensor.data_ptr() % _WIDEST_ACCESS or outer[0] % step or outer[1] % step:
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor
