"""The kernels for autograd, called directly: what the operators do, at a fraction of the host time.

An operator of torch costs some 100 us of Python a call, a small network's kernels take less. So
plain tensors take this way; traced ones (`torch.compile`, `torch.export`, fake tensors) take the
operators.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .dispatch import Call, run_backward, run_forward
from .saved import saved_again, saved_from


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
        ctx.call, ctx.has_bias = call, b is not None
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(results[-1])
        saved = saved_from(call.choice.save, wx, R, R_diag, b, params, initial, results)
        ctx.save_for_backward(*saved.flat())
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """The results of `run_backward`; where a second derivative is wanted, the operator's."""
        call: Call = ctx.call
        count = len(call.cell.states)
        saved = saved_again(ctx.saved_tensors, count)
        d_states, d_last = gradients[:count], gradients[count : 2 * count]
        if torch.is_grad_enabled():
            more = (call.cell.text, *call.choice)
            results = torch.ops.rnnc.scan_backward(list(d_states), list(d_last), *saved, *more)
        else:
            # Unless the caller retains the graph, this is the only backward over what was kept.
            donated = not torch._C._autograd._get_current_graph_task_keep_graph()
            results = run_backward(call, d_states, d_last, *saved, donated=donated)
        *single, d_params, d_initial = saved.named(results, ctx.has_bias)
        return (None, *single, *d_params, *d_initial)
