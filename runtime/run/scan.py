"""Cells over time: by kernels directly, by an operator of torch, or by the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.call import Call, Choice, call_of, cell_of, text_in_graph
from ..call.marks import constant_in_graphs, outside_of_graphs
from ..call.plain import all_plain, any_tangent, is_watched, profiler_enabled
from ..call.tensors import Forward, ScanInputs, States, forward_from
from ..check.scan import check_kernel_inputs, check_scan
from ..errors import CompileError, NoCompilerError, TensorError
from ..grad import flops, schemas  # noqa: F401  (`flops` registers formulas with torch)
from ..grad.function import Scan
from ..grad.operators import scan_op
from ..grad.transforms import check_has_operators, needs_reference
from ..process.caller import warn_once
from ..process.turns import short_turns
from ..targets.reference import scan_reference
from ..targets.refusals import check_takes_inputs, check_takes_masks
from ..targets.registry import TARGETS, check_backend, target_name
from ..targets.target import Target


def run_scan(
    cell: CellSpec,
    inputs: ScanInputs,
    over_time: tuple[bool, ...],
    backend: str,
    choice: Choice,
) -> tuple[States, States]:
    """Run a cell by kernels or by the reference, for `scan` and `rnnc.RNN`.

    The inputs are checked. `over_time` says which states are wanted at all steps; the kernels may
    return the others empty.
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
    """Run the kernels by plain values and torch operations, which `torch.compile` can trace."""
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
        target.begin(computed, inputs.wx.device.index)
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
    """Do what the operator does, without the host time of an operator."""
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
    """Return the name of the target that serves a device, or "reference".

    Only here `"auto"` falls back to the reference. `index` is the device's number, if it has one.

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
