"""Kernels as an autograd function, called directly: the operators without their host time.

An operator of torch costs about 100 us of Python per call, which is more than the kernels of a
small network take. So plain tensors take this way; traced ones (`torch.compile`, `torch.export`,
fake tensors) take the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

from ...codegen.shape import Precision
from ..call.call import Call
from ..call.plain import all_plain, is_watched, profiler_enabled
from ..call.tensors import Gradients, Saved, inputs_from, saved_from, saved_of
from ..errors import BackwardError
from ..process.turns import short_turns_of_backward
from ..targets.registry import TARGETS
from . import schemas
from .check_saved import Sizes, check_saved, plain_gradients
from .transforms import check_gradients, check_has_operators


class Record(NamedTuple):
    """Call and wx of a forward, without values: they say what all its tensors are.

    `shape` is that of wx; `dtype` and `device` are those of all tensors.
    """

    call: Call
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    def checked(self, flat: Sequence[Tensor | None], saved: Saved) -> Saved:
        """Return the saved tensors as kernels can read them, after `check_saved`.

        `flat` is what autograd gave back, and `saved` the same by name.
        """
        likeness = Likeness(self, flat)
        if likeness.seen():
            return saved
        batch, steps, heads, dim, _ = self.shape
        sizes = Sizes(steps, batch, heads, dim, self.dtype, self.device)
        call = self.call
        found = check_saved(TARGETS[call.target], call.cell, call.choice.save, sizes, saved)
        if all(new is old for new, old in zip(found.flat(), flat, strict=True)):
            likeness.remember()
        return found


# By the key of a call, the number of tensors, and, if some are the same tensor, the first place of
# each: whether tensors have the types, dtypes, devices, sizes and strides of some that passed all
# checks. One call of C compares them; it holds no tensor, and takes no tensor twice.
_SEEN: dict[Hashable, Callable[..., bool]] = {}
_MOST_ENTRIES = 1024


class Likeness:
    """Kinds of a backward's tensors, besides their values, to be compared with earlier ones.

    `key` is of the call, which says what its tensors should be.
    """

    __slots__ = ("_key", "_tensors", "_unique")

    def __init__(self, key: Hashable, tensors: Sequence[Tensor | None]) -> None:
        given = self._tensors = [t for t in tensors if t is not None]
        unique = {id(t): t for t in given}
        equal: tuple[int, ...] = ()
        if len(unique) < len(given):  # two layers may share a weight
            ids = list(map(id, given))
            equal, given = tuple(map(ids.index, ids)), list(unique.values())
        self._key, self._unique = (key, len(given), equal), given

    def seen(self) -> bool:
        """Return True if such tensors passed all checks before, and have memory now."""
        same = _SEEN.get(self._key)
        return same is not None and same(*self._unique) and have_memory(self._unique)

    def remember(self) -> None:
        """Remember that such tensors have passed all checks."""
        if len(_SEEN) >= _MOST_ENTRIES:
            _SEEN.clear()
        guards = TensorGuards(*self._unique, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        _SEEN[self._key] = guards.check


def have_memory(tensors: Iterable[Tensor]) -> bool:
    """Return True if all tensors, plain ones, have memory.

    Fully sharded modules free it between calls.
    """
    # A list takes less time than a generator.
    return all([t.data_ptr() or not t.numel() for t in tensors])  # noqa: C419


class Scan(torch.autograd.Function):
    """`rnnc::scan` with its gradient, on the tensors of `ScanInputs.flat`."""

    @staticmethod
    def forward(ctx: Any, call: Call, *flat: Tensor | None) -> tuple[Tensor, ...]:
        """Return the results of the target's forward, flat."""
        inputs = inputs_from(flat, len(call.stored), call.masked, len(call.cell.inputs))
        wx = inputs.wx
        target = TARGETS[call.target]
        result = target.forward(call, inputs)
        ctx.call, ctx.has_bias, ctx.spent = call, inputs.b is not None, False
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(result.saved)
        again = target.computes_gates_again(call.choice.save)
        ctx.record = Record(call, wx.shape, wx.dtype, wx.device)
        ctx.save_for_backward(*saved_of(inputs, result, again).flat())
        return tuple(result.flat())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """Return `run_backward`'s results; the operator's if a second derivative is wanted."""
        call: Call = ctx.call
        count = len(call.stored)
        if ctx.spent:
            raise spent_error()
        flat = ctx.saved_tensors
        saved = saved_from(flat, count, call.masked, len(call.cell.inputs))
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_watched():
            check_has_operators(call.target)
            check_gradients(gradients)
            seeds = list(gradients[:count]), list(gradients[count : 2 * count])
            precision: Precision = "tf32" if call.tf32 else "ieee"
            options = (call.cell.text, *call.choice._replace(precision=precision).of_scan)
            tensors, more = schemas.to_backward(saved), schemas.to_last(saved)
            results = torch.ops.rnnc.scan_backward(*seeds, *tensors, *options, *more)
            found = schemas.from_results(results, count, len(saved.unweighted))
        else:
            short_turns_of_backward(ctx.record.device)
            saved = ctx.record.checked(flat, saved)
            if not all_plain(gradients):
                check_gradients(gradients)
                gradients = tuple(plain_gradients(gradients))
            # Unless the caller retains the graph, no other backward reads the saved values.
            donated = not (
                torch._C._autograd._get_current_graph_task_keep_graph()
                or saved.saved.is_inference()
            )
            before = saved.saved._version if donated else 0
            try:
                d_states, d_last = gradients[:count], gradients[count : 2 * count]
                run: Callable[..., Gradients] = run_backward
                if profiler_enabled():
                    run = _profiled_backward
                found = run(call, saved, d_states, d_last, donated=donated)
            except BaseException:
                ctx.spent = donated and saved.saved._version != before
                raise
        return (None, *found.given_flat(saved, ctx.has_bias))


def run_backward(
    call: Call,
    saved: Saved,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    donated: bool = False,
) -> Gradients:
    """Run the backward of a call on the device of its tensors.

    `d_states` are (T, B, N, D) each and `d_last` (B, N, D), or None for zero. If `donated`, nobody
    reads `saved.saved` again: its memory may then be overwritten.
    """
    with without_autocast(saved.saved.device.type):
        return TARGETS[call.target].backward(call, saved, d_states, d_last, donated)


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Return a context without autocast, which rounds torch's products, for a backward.

    The forward has decided what they compute in.
    """
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return _NOTHING


_NOTHING = nullcontext()


def _profiled_backward(*arguments: Any, **options: Any) -> Gradients:
    with torch.profiler.record_function("rnnc::scan_backward"):
        return run_backward(*arguments, **options)


def spent_error() -> BackwardError:
    """Return the error of a backward over saved values that a failed backward overwrote."""
    return BackwardError(
        "a second backward after one that failed",
        "saved gates that the failed backward overwrote with gradients",
        "a new forward after a backward that failed",
        "the forward again, or backward(retain_graph=True) if it may fail",
    )
