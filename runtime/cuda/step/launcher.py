"""Launcher of the kernels of a single step, and their arguments."""

from __future__ import annotations

import ctypes

from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.step.plan import StepPlan
from ...call.facts import facts_of
from ..arguments import NUMBER, POINTER, fields, structure
from ..launch import CallSizes, Launcher
from ..load import load_kernel

_SIZES = fields(NUMBER, "batch heads dim")


def forward_step_struct(states: int, params: int) -> type[ctypes.Structure]:
    """Return the mirror of `ForwardStepArguments` for a cell with so many states and params."""
    return structure(
        "ForwardStepArguments",
        *_SIZES,
        ("input", NUMBER),
        *fields(POINTER, "x W R x_products h_products R_diag bias"),
        ("params", POINTER * max(params, 1)),
        *fields(POINTER * states, "before after"),
        *fields(POINTER, "output saved"),
    )


def backward_step_struct(states: int, params: int) -> type[ctypes.Structure]:
    """Return the mirror of `BackwardStepArguments` for a cell with so many states and params."""
    each_state = POINTER * states
    return structure(
        "BackwardStepArguments",
        *_SIZES,
        ("R_diag", POINTER),
        ("params", POINTER * max(params, 1)),
        *fields(each_state, "before after"),
        *fields(POINTER, "saved d_output"),
        ("d_after", each_state),
        *fields(POINTER, "d_inputs d_pairs"),
        ("d_before", each_state),
        ("sums", POINTER),
        ("input", NUMBER),
        *fields(POINTER, "x W R d_x d_W d_R d_weights"),
        ("d_states", each_state),
    )


class StepLauncher(Launcher):
    """Launcher of one direction of a layer's step.

    A backward that multiplies has two kernels, of gradients of weights and of inputs. Their blocks
    depend on the features of the layer's input.

    Attributes:
        arguments: the struct of its kernels, of 64-bit fields.
        kernels: all of them, in this order.
    """

    __slots__ = ("_grid", "arguments", "kernels")

    def __init__(self, cell: CellSpec, plan: StepPlan, sizes: CallSizes, device: int) -> None:
        counts, forward = facts_of(cell).counts, plan.direction == "forward"
        struct = forward_step_struct if forward else backward_step_struct
        self.arguments = struct(counts.states, counts.params)
        self.kernels = [load_kernel(cell, plan, name, device) for name in plan.kernel_names]
        self._grid = plan.grid(*sizes)

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Launch a layer's kernel; the address of R is one of the arguments."""
        self.kernels[0](self._grid, arguments)
