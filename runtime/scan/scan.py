"""`rnnc.scan`: a cell over time as a function of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kinds import variants
from ...codegen.shape import PRECISIONS, SAVES, Precision, Save
from ..call.call import Choice
from ..call.masks import masks_of
from ..call.options import check_choice
from ..call.tensors import ScanInputs, States
from ..check.masks import check_masks
from ..check.module import check_flag
from ..check.scan import check_is_cell, check_scan, check_wx, params_in_order
from ..check.unweighted import unweighted_in_order
from ..run.scan import run_scan
from ..targets.registry import target_of


def scan(
    cell: CellSpec | str,
    wx: Tensor,
    R: Tensor | None = None,
    b: Tensor | None = None,
    states: Sequence[Tensor] | None = None,
    *,
    R_diag: Tensor | None = None,
    params: Mapping[str, Tensor] | None = None,
    backend: str = "auto",
    variant: str = "auto",
    save: Save = "gates",
    precision: Precision = None,
    reverse: bool = False,
    lengths: Tensor | None = None,
    reset: Tensor | None = None,
    reset_to: Sequence[Tensor] | None = None,
    inputs: Mapping[str, Tensor] | None = None,
) -> tuple[States, States]:
    """Run a cell over time.

    B batch rows, T steps, N heads, D units per head. All tensors share a dtype and a device.

    Args:
        cell: the cell, or its name in `rnnc.cells`.
        wx: (B, T, N, D, Gx), the input's contribution to each gate that takes input, in the
            cell's order; any strides.
        R: (Gr, N, D, D) as [gate, head, out, in], a matrix for each dense (gate, source) pair in
            the cell's order.
        b: (Gb, N, D), the bias of each gate that has one, or None for none at all.
        states: the states before the first step, (B, N, D) each; by default each state's `init`.
        R_diag: (Gd, N, D), a weight for each diagonal (gate, source) pair.
        params: (N, D) each, by name.
        backend: `"cpu"` and `"cuda"`, the compiled kernels (on the CPU half precision is computed
            in float32); `"reference"`, a loop of torch operations for any dtype, device and order
            of derivative; `"auto"`, the kernels if the device has any, else the reference, with
            one warning. `rnnc.runtime.targets.registry.register_target` adds other backends.
        variant: which plan a GPU runs. R stays on chip with a head in one block (`"block"`), in a
            cluster of blocks (`"cluster"`) or in blocks all over the chip (`"grid"`);
            `"alternating"` takes one or two launches per step; `"auto"` is the cheapest that fits.
        save: what the forward saves for the backward: the values of `"gates"`, or `"states"` alone.
            Then the backward computes the gates again, from wx.
        precision: of the products of float32 on a GPU: `"tf32"` rounds their factors to 10 bits of
            mantissa, `"ieee"` keeps 23; None does what `torch.backends.cudnn.rnn.fp32_precision`
            says, as `nn.LSTM` does: TF32 by default. The backward does what its forward did. The
            CPU, float64 and the reference do not round.
        reverse: whether the cell runs from the last step to the first. No tensor changes its order:
            the states at step t are then those after the steps T - 1 to t, the last states are
            those after step 0, and `states` come before step T - 1.
        lengths: (B,) whole numbers from 0 to T, on any device: how many steps each row runs. At
            later steps the states at all steps are 0 and gradients are 0, whatever wx holds there;
            the last states are those after the row's last step, of a row of no steps the initial
            ones. The reverse direction starts at a row's last step. Lengths on a GPU are clamped;
            with `RNNC_CHECK=1` in the environment wrong ones are an error.
        reset: (B, T) of bool: before which steps the states of a row become `reset_to`, whatever
            they hold. No gradient passes a reset. With `reverse` a reset at t is a boundary between
            t - 1 and t: the states are reset before step t - 1 runs.
        reset_to: for each state (N, D) or (B, N, D), which get gradients, or (B, T, N, D): what is
            stored for the step of the reset, which gets none. By default each state's `init`.
        inputs: a tensor for each `Input` of the cell, by name: (B, T), one value for all units of a
            row at a step, or what broadcasts to (B, T, N, D). A tensor of two axes that fits both
            is (B, T). Kernels of both directions read it as it lies, without a copy of the full
            shape.

    Returns:
        All states at all steps, (B, T, N, D) each, and all states after the last step that runs,
        (B, N, D) each. Gradients pass from both to wx, R, R_diag, b, params, the initial states,
        `reset_to` and `inputs`.

    Raises:
        TensorError: a tensor is missing or does not fit, or an option has no such value; names it
            and what was expected.
        PlanError: there is no plan of the variant for these sizes.
        CompileError: the kernels could not be built.

    Example:
        >>> import torch, rnnc
        >>> wx = torch.randn(2, 5, 1, 8, 1)                      # B, T, N, D, gates
        >>> (h,), (last,) = rnnc.scan(rnnc.cells.elman, wx, torch.randn(1, 1, 8, 8))
        >>> h.shape, torch.equal(h[:, -1], last)
        (torch.Size([2, 5, 1, 8]), True)
    """
    if not isinstance(cell, CellSpec):
        cell = check_is_cell(cell)
    given: Any = states
    if states is None and isinstance(wx, Tensor) and wx.layout == torch.strided and wx.ndim == 5:
        target = target_of(wx.device, backend)
        shape = (wx.shape[0], *wx.shape[2:4])
        given = target.initial_states(wx, [s.init for s in cell.states], shape)
    call = ScanInputs(wx, R, b, given, R_diag, params_in_order(cell, params, wx))
    if inputs is not None or cell.inputs:
        call = _with_unweighted(cell, call, inputs)
    if not torch.compiler.is_compiling():  # under a compiler, the operator's fake checks shapes
        check_scan(cell, call)
        if variant not in variants():
            check_choice("variant", variant, variants())
        if save not in SAVES:
            check_choice("save", save, SAVES)
        if precision not in PRECISIONS:
            check_choice("precision", precision, PRECISIONS)
        if not isinstance(reverse, bool):
            check_flag("reverse", reverse)
    if not (lengths is None and reset is None and reset_to is None):
        if not torch.compiler.is_compiling():
            check_masks(cell, lengths, reset, reset_to, wx)
        sizes = wx.shape[0], wx.shape[1]
        masks = masks_of(lengths, reset, reset_to, sizes, wx.device, reverse)
        call = ScanInputs(wx, R, b, given, R_diag, call.params, masks, call.unweighted)
    wanted = (True,) * len(cell.states)
    return run_scan(cell, call, wanted, backend, Choice(variant, save, precision, reverse))


def _with_unweighted(cell: CellSpec, call: ScanInputs, inputs: Any) -> ScanInputs:
    """Return a call with the cell's inputs; an error in wx is reported before one in them."""
    if not torch.compiler.is_compiling():
        check_wx(cell, call.wx)
    return replace(call, unweighted=unweighted_in_order(cell, inputs, call.wx))
