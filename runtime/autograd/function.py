"""The kernels for autograd, called directly: what the operators do, at a fraction of the host time.

An operator of torch costs some 100 us of Python a call, a small network's kernels take less. So
plain tensors take this way; traced ones (`torch.compile`, `torch.export`, fake tensors) take the
operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..call import Call, run_backward, run_forward
from ..errors import BackwardError
from .plain import all_plain, is_watched, profiler_enabled
from .record import Record, plain_gradients
from .saved import saved_again, saved_from
from .transforms import check_gradients


class Scan(torch.autograd.Function):
    """`rnnc::scan` with its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        wx: Tensor,
        R: Tensor | None,
        R_diag: Tensor | None,
        b: Tensor | None,
        *params_and_initial: Tensor,
    ) -> tuple[Tensor, ...]:
        """The results of `run_forward`."""
        count = len(call.cell.states)
        params = params_and_initial[: len(params_and_initial) - count]
        initial = params_and_initial[len(params) :]
        results = run_forward(call, wx, R, R_diag, b, params, initial)
        ctx.call, ctx.has_bias, ctx.spent = call, b is not None, False
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(results[-1])
        saved = saved_from(call.choice.save, wx, R, R_diag, b, params, initial, results)
        ctx.record = Record(call, wx.shape, wx.dtype, wx.device)
        ctx.save_for_backward(*saved.flat())
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """The results of `run_backward`; where a second derivative is wanted, the operator's."""
        call: Call = ctx.call
        count = len(call.cell.states)
        if ctx.spent:
            raise _spent()
        flat = ctx.saved_tensors
        saved = saved_again(flat, count)
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_watched():
            check_gradients(gradients)
            d_states, d_last = gradients[:count], gradients[count : 2 * count]
            more = (call.cell.text, *call.choice)
            results = torch.ops.rnnc.scan_backward(list(d_states), list(d_last), *saved, *more)
        else:
            saved = ctx.record.checked(flat, saved)
            if not all_plain(gradients):
                check_gradients(gradients)
                gradients = tuple(plain_gradients(gradients))
            # Unless the caller retains the graph, this is the only backward over what was kept.
            donated = not (
                torch._C._autograd._get_current_graph_task_keep_graph() or saved.kept.is_inference()
            )
            before = saved.kept._version if donated else 0
            try:
                d_states, d_last = gradients[:count], gradients[count : 2 * count]
                run: Callable[..., list[Tensor]] = run_backward
                if profiler_enabled():
                    run = _profiled_backward
                results = run(call, d_states, d_last, *saved, donated=donated)
            except BaseException:
                ctx.spent = donated and saved.kept._version != before
                raise
        *single, d_params, d_initial = saved.named(results, ctx.has_bias)
        return (None, *single, *d_params, *d_initial)


def _profiled_backward(*arguments: Any, **options: Any) -> list[Tensor]:
    with torch.profiler.record_function("rnnc::scan_backward"):
        return run_backward(*arguments, **options)


def _spent() -> BackwardError:
    return BackwardError(
        "a second backward after one that failed",
        "saved gates that the failed backward overwrote with gradients",
        "a new forward after a backward that failed",
        "the forward again, or backward(retain_graph=True) if it may fail",
    )
