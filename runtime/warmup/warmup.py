"""`rnnc.warmup`: compile a model's kernels before its first call, on all ranks alike."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..call.stack import Stack
from ..process.caller import warn
from ..store.tuned import Asked
from ..targets.stack import target_for
from .kernels import described, load_kernels, stack_of_call, why_none, without_repeats
from .layers import LayerCall, calls_of
from .plans import take_over_plans


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
    calls = list(without_repeats(calls_of(module, inputs, options, dtype)))
    reasons = [why_none(call) for call in calls]
    for reason in dict.fromkeys(filter(None, reasons)):
        lacking = zip(calls, reasons, strict=True)
        which = "; ".join(described(call) for call, why in lacking if why == reason)
        warn(f"rnnc.warmup compiles nothing for {which}:\n{reason}")
    served = [call for call, why in zip(calls, reasons, strict=True) if why is None]
    found = [(call, stack_of_call(call, backward)) for call in served]
    loaded = [(call, stack) for call, stack in found if stack is not None]
    for call, stack in loaded:
        load_kernels(call, stack)
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        asked = [each for call, stack in loaded for each in _asked(call, stack)]
        if take_over_plans(asked):
            for call, stack in loaded:
                load_kernels(call, stack)
    return [described(call) for call, _ in loaded]


def _asked(call: LayerCall, stack: Stack) -> list[Asked]:
    """Return the requests for the plans of a call; none on a target without plans."""
    if stack.calls[0].choice.variant != "auto":
        return []
    target = target_for(stack)
    asked = target.asked_ahead(stack.calls[0], stack, call.batch, call.like(target))
    return [] if asked is None else [asked]
