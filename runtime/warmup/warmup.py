"""`rnnc.warmup`: compile a model's kernels before its first call, on all ranks alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ...codegen.plan import Plan
from ..call.call import Call
from ..call.ragged import RaggedKind
from ..call.settings import Asked, call_of
from ..process.caller import warn
from ..run.backend import resolve_backend
from ..store.tuned import Asked as AskedPlan
from ..store.tuned import packed_plan, planned, recall, remember, unpacked_plan
from ..targets.registry import TARGETS, compiler_error, target_name
from .layers import ModuleCall, calls_of


def call_of_kernels(noted: ModuleCall, backward: bool) -> Call | None:
    """Return the call that kernels run for a noted one; None if none do."""
    settings, device = noted.settings, noted.device
    name = resolve_backend(settings.backend, device.type, device.index)
    if name == "reference":
        return None
    target = TARGETS[name]
    computed, _ = target.dtypes_of(noted.dtype)
    if computed not in target.dtypes:
        return None
    kind = RaggedKind(True, False, 0) if noted.masked else None
    tf32 = target.rounds(computed, settings.choice.precision)
    asked, settings = Asked(kind), settings._replace(dropout=0.0)
    call = call_of(settings, name, backward, tf32, asked)
    sizes = noted.batch, settings.heads, settings.dim
    may_join = settings.may_join and not noted.apart
    if may_join and target.joins(call.directions[0], noted.like(target), *sizes):
        return call_of(settings, name, backward, tf32, asked._replace(joint=True)).both
    return call


def why_none(noted: ModuleCall) -> str | None:
    """Return the reason why a call that leaves the choice to rnnc gets no kernels, if any."""
    settings, device = noted.settings, noted.device
    if settings.backend != "auto":
        return None
    name = target_name(device.type)
    if name is None:
        return f"rnnc has no kernels for the device {device.type!r}"
    error = compiler_error(name, device.index)
    return None if error is None else str(error)


def load_kernels(noted: ModuleCall, call: Call) -> None:
    """Compile the kernels of a call, or find them compiled, and load them."""
    target = TARGETS[call.target]
    like = noted.like(target)
    for each in call.directions:
        target.load_ahead(each, call, noted.steps, noted.batch, like)


def described(noted: ModuleCall) -> str:
    """Return a call in one line."""
    settings = noted.settings
    size = f"{settings.cell.name}, {settings.heads} x {settings.dim}, batch {noted.batch}"
    both = ", both directions" if settings.both else ""
    masked = ", with lengths or resets" if noted.masked else ""
    dtype = str(noted.dtype).removeprefix("torch.")
    return f"{size}, {dtype} on {noted.device.type}{both}{masked}"


def without_repeats(calls: list[ModuleCall]) -> list[ModuleCall]:
    """Return each kind of call once, in the order of their first occurrence."""
    found: dict[object, ModuleCall] = {}
    for noted in calls:
        own = noted.settings
        key = described(noted), own.cell, own.layers, own.choice, noted.steps
        found.setdefault(key, noted)
    return list(found.values())


def take_over_plans(asked: Sequence[AskedPlan]) -> int:
    """Let all ranks of the default group run the plans that rank 0 runs; return how many changed.

    A trial on one machine may have found another plan than one on another machine. `asked` has the
    same order on each rank. A rank's plan is that of a trial, else the model's.
    """
    own: list[object] = (
        [packed_plan(_chosen(each)) for each in asked] if not dist.get_rank() else []
    )
    told = [own]
    dist.broadcast_object_list(told, src=0)
    replaced = 0
    for each, packed in zip(asked, told[0], strict=True):
        plan = unpacked_plan(packed, each.limits.arch)
        if packed_plan(_chosen(each)) != packed:
            remember(each, plan)
            replaced += 1
    return replaced


def _chosen(asked: AskedPlan) -> Plan:
    return recall(asked) or planned(asked)


def warmup(
    module: nn.Module,
    *inputs: Any,
    dtype: torch.dtype | None = None,
    backward: bool = True,
    **options: Any,
) -> list[str]:
    """Compile and load the kernels of a model's recurrent layers, without a forward.

    The model runs on tensors without values, in which its recurrent layers only note the shapes
    that they get. Their kernels for whole sequences are compiled then. In several processes, each
    compiles before any of them enters a collective: on a machine the first one builds a kernel,
    and the others wait for the file in the cache. Then all ranks take over the plans of rank 0, so
    that they run the same kernels. Machines may have caches of their own.

    Call it on all ranks, after `parallelize_module` and ahead of `fully_shard`. Under
    `torch.autocast` it compiles for autocast's dtype.

    Args:
        module: an `rnnc.RNN`, a module of `rnnc.nn`, or a model with some.
        inputs: of a forward: shapes, for tensors of the dtype of the parameters, or tensors on any
            device, `torch.empty(shape, dtype=torch.long, device="meta")` for example. A batch of
            another size may need other kernels; the number of steps rarely matters.
        dtype: of the weights in a call, where it is not that of the parameters: `param_dtype` of a
            `MixedPrecisionPolicy`.
        backward: whether gradients are wanted too.
        options: more inputs by name, such as `lengths`.

    Returns:
        A line for each kind of call whose kernels are loaded. A warning names the others, where
        kernels lack a compiler or a device.

    Raises:
        TensorError: an input is neither a shape nor a tensor, or a layer does not take its shape;
            the module is no model, has no recurrent layers, is sharded by `fully_shard`, or its
            forward needs values.
        CompileError: a module names its backend and there is no compiler, or it refused a source.
        PlanError: there is no plan for a size.

    Example:
        >>> import torch, rnnc
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), rnnc.RNN(rnnc.cells.gru, 4, 8))
        >>> rnnc.warmup(model, (128, 16, 3))
        ['gru, 1 x 8, batch 16, float32 on cpu']
    """
    calls = without_repeats(calls_of(module, inputs, options, dtype))
    reasons = [why_none(noted) for noted in calls]
    for reason in dict.fromkeys(filter(None, reasons)):
        lacking = zip(calls, reasons, strict=True)
        which = "; ".join(described(noted) for noted, why in lacking if why == reason)
        warn(f"rnnc.warmup compiles nothing for {which}:\n{reason}")
    served = [noted for noted, why in zip(calls, reasons, strict=True) if why is None]
    found = [(noted, call_of_kernels(noted, backward)) for noted in served]
    loaded = [(noted, call) for noted, call in found if call is not None]
    for noted, call in loaded:
        load_kernels(noted, call)
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        asked = [each for noted, call in loaded for each in _asked(noted, call)]
        if take_over_plans(asked):
            for noted, call in loaded:
                load_kernels(noted, call)
    return [described(noted) for noted, _ in loaded]


def _asked(noted: ModuleCall, call: Call) -> list[AskedPlan]:
    """Return the requests for the plans of a call; none on a target without plans."""
    if call.directions[0].choice.variant != "auto":
        return []
    target = TARGETS[call.target]
    like = noted.like(target)
    asked = target.asked_ahead(call.directions[0], call, noted.steps, noted.batch, like)
    return [] if asked is None else [asked]
