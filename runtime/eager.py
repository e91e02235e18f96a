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
        again = call.choice.save == "states" and wx.device.type == "cuda"
        gates_from = (wx, b) if again else (None, None)
        states = results[:count]
        ctx.save_for_backward(*gates_from, R, R_diag, *params, *initial, *states, results[-1])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """The results of `run_backward`; where a second derivative is wanted, the operator's."""
        call: Call = ctx.call
        wx, b, R, R_diag, *rest = ctx.saved_tensors
        count = len(call.cell.states)
        split = len(rest) - 2 * count - 1
        params, initial = rest[:split], rest[split : split + count]
        states, kept = rest[split + count : -1], rest[-1]
        d_states, d_last = gradients[:count], gradients[count : 2 * count]
        tensors = (wx, b, R, R_diag, params, initial, states, kept)
        if torch.is_grad_enabled():
            more = (call.cell.text, *call.choice)
            results = torch.ops.rnnc.scan_backward(list(d_states), list(d_last), *tensors, *more)
        else:
            results = run_backward(call, d_states, d_last, *tensors)
        d_wx, d_R, d_R_diag, d_b, d_params, *d_initial = results
        return (
            None,
            d_wx,
            None if R is None else d_R,
            None if R_diag is None else d_R_diag,
            d_b if ctx.has_bias else None,
            *d_params.unbind(0),
            *d_initial,
        )
