"""`rnnc.scan`: a cell over time as a function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.cuda.kinds import variants
from ..codegen.shape import PRECISIONS, SAVES, Precision, Save
from .autograd import flops, schemas  # noqa: F401  (`flops` registers formulas with torch)
from .autograd.function import Scan
from .autograd.marks import constant_in_graphs, outside_of_graphs
from .autograd.operators import scan_op
from .autograd.transforms import check_has_operators, needs_reference
from .call import Call, Choice, call_of, cell_of, text_in_graph
from .caller import warn_once
from .check.masks import check_masks, check_takes_masks
from .check.module import check_choice, check_flag
from .check.plain import all_plain, any_tangent, is_watched, profiler_enabled
from .check.scan import check_is_cell, check_kernel_inputs, check_scan, check_wx, params_in_order
from .check.unweighted import check_takes_inputs, unweighted_in_order
from .errors import CompileError, NoCompilerError, TensorError
from .masks import masks_of
from .reference import scan_reference
from .targets import TARGETS, Target, begin_kernels, check_backend, target_name, target_of
from .tensors import Forward, ScanInputs, States, forward_from
from .turns import short_turns


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
            one warning. `rnnc.runtime.targets.register_target` adds other backends.
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
    """A call with the cell's inputs; an error in wx is reported before one in them."""
    if not torch.compiler.is_compiling():
        check_wx(cell, call.wx)
    return replace(call, unweighted=unweighted_in_order(cell, inputs, call.wx))


def run_scan(
    cell: CellSpec,
    inputs: ScanInputs,
    over_time: tuple[bool, ...],
    backend: str,
    choice: Choice,
) -> tuple[States, States]:
    """What `scan` and `rnnc.RNN` share: run a cell by kernels or by the reference.

    Args:
        cell: the cell.
        inputs: of the call, checked.
        over_time: which states are wanted at all steps; the kernels may return the others empty.
        backend: as in `scan`.
        choice: among the kernels of a device.
    """
    device = inputs.wx.device
    found = resolve_backend(backend, device.type, device.index)
    flat = inputs.flat()
    transformed = torch.compiler.is_compiling() or is_watched() or any_tangent(flat)
    if found == "reference" or (transformed and needs_reference(backend, flat)):
        if torch.compiler.is_compiling():
            return _reference_outside_of_graphs(cell, inputs, choice.reverse is True)
        check_scan(cell, inputs)  # a module's weights may differ in dtype
        return scan_reference(cell, inputs, choice.reverse is True)
    return _scan_kernels(cell.text, found, inputs, over_time, choice)


# Torch cannot trace the functions of a cell as text, and would break the graph at each of them.
_reference_outside_of_graphs = outside_of_graphs(scan_reference)


def _scan_kernels(
    cell: str, name: str, inputs: ScanInputs, over_time: tuple[bool, ...], choice: Choice
) -> tuple[States, States]:
    """Run the kernels, by plain values and torch operations only: `torch.compile` can trace them.

    Args:
        cell: as JSON.
        name: of the target.
        inputs: of the call.
        over_time: which states are wanted at all steps.
        choice: among the kernels of a device.
    """
    target = TARGETS[name]
    masks = inputs.masks
    if masks is not None:
        check_takes_masks(target, name)
    if inputs.unweighted:
        check_takes_inputs(target, name)
    computed, returned = target.dtypes_of(inputs.wx.dtype)
    tensors = inputs.present()
    needs_grad = mixed = False
    for tensor in tensors:
        needs_grad = needs_grad or tensor.requires_grad
        mixed = mixed or tensor.dtype != computed
    for_backward = needs_grad and torch.is_grad_enabled()
    if mixed or computed not in target.dtypes:
        _check_kinds(cell, target, inputs, computed)
        if any(t.dtype == torch.float64 for t in tensors):  # autocast leaves it alone, as torch's
            computed = returned = torch.float64
        inputs = inputs.map(lambda tensor: tensor.to(computed))
        tensors = inputs.present()
    read = tensors if masks is None else [*tensors, masks.steps, masks.longest]
    if torch.compiler.is_compiling() or not all_plain(read) or is_watched():
        check_has_operators(name)
        _check_kinds(cell, target, inputs, computed)
        if torch.compiler.is_compiling():
            cell = text_in_graph(cell)
        options = (cell, for_backward, over_time, *choice.of_scan, *schemas.to_last(inputs))
        results = forward_from(scan_op(*schemas.to_scan(inputs), *options))
    else:
        tf32 = target.rounds(computed, choice.precision)
        masked = masks is not None
        begin_kernels(target, computed, inputs.wx.device.index)
        call = call_of(cell, name, for_backward, over_time, choice, tf32, masked)
        with short_turns(inputs.wx.device):
            results = _run_directly(call, inputs)
    sequences, last = results.states, results.last
    if returned != computed:
        sequences, last = [s.to(returned) for s in sequences], [s.to(returned) for s in last]
    return tuple([s.transpose(0, 1) for s in sequences]), tuple(last)


def _check_kinds(cell: str, target: Target, inputs: ScanInputs, computed: torch.dtype) -> None:
    """Refuse layouts and dtypes that no kernel takes, and dtypes that differ without autocast."""
    if not torch.compiler.is_compiling():
        check_kernel_inputs(cell_of(cell), inputs, computed, target.dtypes)


def _run_directly(call: Call, inputs: ScanInputs) -> Forward:
    """What the operator does, without the host time of an operator."""
    if profiler_enabled():
        with torch.profiler.record_function("rnnc::scan"):
            return _run_kernels(call, inputs)
    return _run_kernels(call, inputs)


def _run_kernels(call: Call, inputs: ScanInputs) -> Forward:
    if call.for_backward:
        scan_apply: Callable[..., Sequence[Tensor]] = Scan.apply
        return forward_from(scan_apply(call, *inputs.flat()))
    return TARGETS[call.target].forward(call, inputs)


@constant_in_graphs
def resolve_backend(backend: str, device: str, index: int | None = None) -> str:
    """Which backend serves a device; the only place where `"auto"` falls back to the reference.

    Args:
        backend: the caller's.
        device: its type.
        index: its number; None if it has none.

    Returns:
        The name of a target, or "reference".

    Raises:
        TensorError: there is no such backend, or it has no kernels for that device.
        NoCompilerError: the kernels were asked for by name, and there is no compiler.
        NoCudaError: likewise, and there is no CuPy, or the GPU is older than the kernels want.
    """
    if backend != "auto" and check_backend(backend) == "reference":
        return "reference"
    found = target_name(device, backend)
    if found is None:
        if backend != "auto":
            wanted = TARGETS[backend].device
            raise TensorError(
                "backend",
                f'"{backend}" with tensors on {device}',
                f"tensors on {wanted}",
                f'tensor.to("{wanted}"), or backend="auto"',
            )
        warn_once(f"rnnc has no kernels for the device {device!r}: it runs the reference loop")
        return "reference"
    try:
        TARGETS[found].find_compiler(index)
    except CompileError as error:
        if backend != "auto":
            raise
        none = isinstance(error, NoCompilerError)
        what = "is no compiler" if none else f"are no {found.upper()} kernels"
        warn_once(f"rnnc runs the slow reference loop, since there {what}:\n{error}")
        return "reference"
    return found
