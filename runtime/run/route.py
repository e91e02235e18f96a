"""The way that a call takes: kernels directly, an operator of torch, or the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.call import Tensors
from ..call.layer_call import Choice, wavefront_error
from ..call.plain import all_plain, any_tangent, is_watched, may_need_gradient, without_autocast
from ..call.settings import OUTPUT, Asked, Settings
from ..call.tensors import States
from ..check.tensor import check_kinds
from ..grad.node import Ready, run_ready
from ..grad.operators import earlier, flops  # noqa: F401  (for files, and counts of torch)
from ..grad.transforms import check_has_operators, needs_reference
from ..targets.registry import TARGETS, check_backend, check_takes, target_name
from ..targets.target import Target
from .backend import backend_of, resolve_backend
from .by_layer import run_reference
from .known_calls import ready_call
from .operator import run_operator

Results = tuple[list[Tensor], States]
Remember = Callable[[Ready], None]


def run_call(
    settings: Settings,
    tensors: Tensors,
    asked: Asked = OUTPUT,
    remember: Remember | None = None,
) -> Results:
    """Run a call of all layers by the way that its tensors and torch's modes leave.

    `settings` have the dropout of this call, and tensors are the caller's, checked. `asked` are the
    results that are wanted, and whether x is wx; the rest follows from the tensors. `remember` is
    told what the call became, if kernels run it directly. The results are the states of the last
    layer at all steps, as many as are asked for, and all states after the last step.
    """
    name = backend_of(settings, tensors.x.device)
    check_wavefront(settings, tensors, asked, name)
    values = tensors.values()
    traced = torch.compiler.is_compiling() or is_watched() or any_tangent(values)
    places = tensors.places
    if places is not None and (name == "reference" or traced or not _all_plain(tensors)):
        over_time, last = run_call(settings, tensors.padded(places), asked)
        return [places.pack(state) for state in over_time], last
    if name == "reference" or (traced and needs_reference(settings.backend, values)):
        found = run_reference(settings, tensors, asked)
        return _with_dtype(found, _returned_by_reference(tensors, asked, values))
    own, returned = _computed(settings, name, tensors, asked, values)
    if traced or not _all_plain(own):
        check_has_operators(name)
        if not torch.compiler.is_compiling():
            check_kinds(settings.cell, own, asked.takes_wx, own.x.dtype, TARGETS[name].dtypes)
        found = run_operator(settings, name, own, asked, _keeps(values))
    else:
        ready = ready_call(settings, name, _keeps(values), own, _of_tensors(asked, tensors))
        if remember is not None:
            remember(ready)
        with without_autocast(own.x.device.type):
            found = run_ready(ready)
    return _with_dtype(found, None if returned == own.x.dtype else returned)


def _with_dtype(found: Results, dtype: torch.dtype | None) -> Results:
    """Return results in a dtype; None leaves them as they are."""
    if dtype is None:
        return found
    over_time, last = found
    return [state.to(dtype) for state in over_time], tuple([state.to(dtype) for state in last])


def _returned_by_reference(
    tensors: Tensors, asked: Asked, values: Sequence[Tensor]
) -> torch.dtype | None:
    """Return the dtype that autocast gives the kernels' results; None without kernels or autocast.

    Operations of torch would give the wider dtype of a state and its gates.
    """
    device = tensors.x.device
    target = TARGETS.get(resolve_backend("auto", device.type, device.index))
    if target is None or not torch.is_autocast_enabled(device.type):
        return None
    if any(value.dtype == torch.float64 for value in values):
        return None
    return _dtypes(target, tensors.x, asked)[1]


def direct_call(settings: Settings, tensors: Tensors, asked: Asked = OUTPUT) -> Ready | None:
    """Return a call that kernels run directly; None where torch has to see it.

    Arguments are as in `run_call`. With `asked.single`, x is (B, input), and the target must have
    kernels for single steps.
    """
    if torch.compiler.is_compiling() or is_watched():
        return None
    name, values = backend_of(settings, tensors.x.device), tensors.values()
    if name == "reference" or any_tangent(values):
        return None
    asked = _of_tensors(asked, tensors)
    if asked.single and not TARGETS[name].takes_steps:
        return None
    own, returned = _computed(settings, name, tensors, asked, values)
    if returned != own.x.dtype or not _all_plain(own):
        return None
    return ready_call(settings, name, _keeps(values), own, asked)


def direct_step(settings: Settings, tensors: Tensors) -> Ready | None:
    """Return a step on x (B, input) that runs by its own kernels; None for a sequence of one."""
    cell = settings.cell
    if cell.inputs or cell.has_stages or (settings.dropout and settings.layers > 1):
        return None
    return direct_call(settings, tensors, Asked(single=True))


def input_of_step(cell: CellSpec, x: Any) -> Any:
    """Return x (B, input) of a step as a sequence of one if the cell has stages, else as it is."""
    if cell.has_stages and isinstance(x, Tensor) and x.ndim == 2:
        return x.unsqueeze(0)
    return x


def runs_as_one_row(
    cell: CellSpec, choice: Choice, backend: str, wx: Tensor, batch: int, steps: int
) -> bool:
    """Return True if packed sequences that begin with initial values run where they lie.

    They are one row then, which begins anew at each of them. Else they are copied to padded rows.
    wx is (total, N, D, Gx), of `batch` sequences, the longest of `steps`.
    """
    if cell.dense_pairs or cell.drawn or not len(wx):
        return False
    if torch.compiler.is_compiling() or is_watched():
        return False
    name = target_name(wx.device.type, check_backend(backend))
    return name in TARGETS and TARGETS[name].runs_as_one_row(cell, choice, wx, batch, steps)


def run_step(
    settings: Settings, tensors: Tensors, remember: Remember | None = None
) -> tuple[Tensor, States]:
    """Run all layers over one step, x (B, input); return the output, (B, hidden), and states.

    x is (1, B, input) if the caller knows that the step runs as a sequence of one.
    """
    ready = direct_step(settings, tensors) if tensors.x.ndim == 2 else None
    if ready is None:
        x = tensors.x if tensors.x.ndim == 3 else tensors.x.unsqueeze(0)
        (y,), last = run_call(settings, tensors._replace(x=x), OUTPUT, remember)
        return y[0], last
    if remember is not None:
        remember(ready)
    with without_autocast(tensors.x.device.type):
        (y,), last = run_ready(ready)
    return y, last


def _of_tensors(asked: Asked, tensors: Tensors) -> Asked:
    """Return what a call is asked for, with the tensors that it has."""
    ragged = None if tensors.ragged is None else tensors.ragged.kind
    return Asked(ragged, len(tensors.states) > 0, *asked[2:])


def _keeps(values: Sequence[Tensor]) -> bool:
    """Return True if a backward may follow a call."""
    return torch.is_grad_enabled() and any(may_need_gradient(value) for value in values)


def _all_plain(tensors: Tensors) -> bool:
    """Return True if kernels can read all tensors of a call by their address."""
    ragged = tensors.ragged
    rows = () if ragged is None else (ragged.lengths, ragged.reset, ragged.starts)
    return all_plain((*tensors.values(), *rows))


def _computed(
    settings: Settings,
    name: str,
    tensors: Tensors,
    asked: Asked,
    values: Sequence[Tensor],
) -> tuple[Tensors, torch.dtype]:
    """Return the tensors, checked, in the dtype that kernels compute in, and that of results."""
    target = TARGETS[name]
    if tensors.ragged is not None or tensors.unweighted:
        check_takes(target, name, tensors)
    computed, returned = _dtypes(target, tensors.x, asked)
    mixed = False
    for value in values:
        mixed = mixed or value.dtype != computed
    if not mixed and computed in target.dtypes:
        return tensors, returned
    if not torch.compiler.is_compiling():
        check_kinds(settings.cell, tensors, asked.takes_wx, computed, target.dtypes)
    if any(value.dtype == torch.float64 for value in values):  # autocast leaves it, as torch's
        computed = returned = torch.float64
    return tensors.map(lambda value: value.to(computed)), returned


def _dtypes(target: Target, x: Tensor, asked: Asked) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype that kernels compute in, and that of results."""
    computed, returned = target.dtypes_of(x.dtype)
    device = x.device.type
    if not asked.takes_wx and torch.is_autocast_enabled(device) and computed != torch.float64:
        returned = torch.get_autocast_dtype(device)  # as the product of x with its weights
    return computed, returned


def check_wavefront(settings: Settings, tensors: Tensors, asked: Asked, name: str) -> None:
    """Raise a `PlanError` for a wavefront of layers that cannot run so at any size."""
    if settings.order != "wavefront" or settings.layers == 1 or len(tensors.x) < 2:
        return
    cell, one_by_one = settings.cell, "with which layers run one by one"
    for why, holds in (
        (f"lengths or resets, {one_by_one}", tensors.ragged is not None),
        (f"a cell with an Input, {one_by_one}", bool(cell.inputs)),
        ("a call by torch operations, which run layer by layer", name == "reference"),
        ("both directions of time", settings.both),
        (f"all states, {one_by_one}", asked.all_states),
        (f"tensors on {tensors.x.device.type}", name != "reference" and not TARGETS[name].at_once),
    ):
        if holds:
            raise wavefront_error(f"{settings.layers} layers of {cell.name}", why)
