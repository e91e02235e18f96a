"""`rnnc.scan`: a cell over time as a function of tensors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.plan import Variant
from ..codegen.shape import Save
from .autograd import flops  # noqa: F401  (tells torch of their operations)
from .autograd.function import Scan
from .autograd.operators import scan_op
from .autograd.plain import all_plain, is_watched, profiler_enabled
from .autograd.transforms import needs_reference
from .call import Call, cell_of, run_forward, stored_states
from .check import check_is_cell, check_kernel_inputs, check_scan
from .cpu.build import find_compiler
from .cuda.choose import Choice
from .cuda.driver.device import find_cuda
from .cuda.kept import freed_with_memory
from .errors import CompileError, NoCompilerError, TensorError
from .reference import scan_reference

Backend = Literal["auto", "cpu", "cuda", "reference"]
BACKENDS: tuple[Backend, ...] = ("auto", "cpu", "cuda", "reference")
States = tuple[Tensor, ...]
# What kernels compute in, by device.
KERNEL_DTYPES = {
    "cpu": (torch.float32, torch.float64),
    "cuda": (torch.float32, torch.float64, torch.bfloat16, torch.float16),
}


def scan(
    cell: CellSpec,
    wx: Tensor,
    R: Tensor | None = None,
    b: Tensor | None = None,
    states: Sequence[Tensor] | None = None,
    *,
    R_diag: Tensor | None = None,
    params: Mapping[str, Tensor] | None = None,
    backend: Backend = "auto",
    variant: Variant = "auto",
    save: Save = "gates",
) -> tuple[States, States]:
    """Run a cell over time.

    B batch rows, T steps, N heads, D units a head. All tensors share a dtype and a device.

    Args:
        cell: the cell.
        wx: (B, T, N, D, Gx), the input's share of each gate that takes input, in the cell's
            order; any strides.
        R: (Gr, N, D, D) as [gate, head, out, in], a matrix for each dense (gate, source) pair in
            the cell's order.
        b: (Gb, N, D), the bias of each gate that has one, or None for none at all.
        states: the states before the first step, (B, N, D) each; by default each state's `init`.
        R_diag: (Gd, N, D), a weight for each diagonal (gate, source) pair.
        params: (N, D) each, by name.
        backend: `"cpu"` and `"cuda"`, the compiled kernels (on the CPU half precision is computed
            in float32); `"reference"`, a loop of torch operations for any dtype, device and order
            of derivative; `"auto"`, the kernels where there are some, else the reference, said
            once.
        variant: which plan of a GPU: R on chip, a head in one block (`"block"`), in a cluster of
            blocks (`"cluster"`) or in blocks all over the chip (`"grid"`); a launch or two a step
            (`"alternating"`); or `"auto"` for the cheapest that fits.
        save: what a GPU keeps for the backward: `"gates"`, or `"states"` alone, from which it
            computes the gates again.

    Returns:
        All states at all steps, (B, T, N, D) each, and all states after the last step, (B, N, D)
        each. Gradients pass from both to wx, R, R_diag, b, params and the initial states.

    Raises:
        TensorError: a tensor is missing or does not fit; names it and what was expected.
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
        check_is_cell(cell)
    params = {} if params is None else params
    strided = isinstance(wx, Tensor) and wx.layout == torch.strided and wx.ndim == 5
    if states is None and strided:
        states = initial_states(wx, [s.init for s in cell.states], (wx.shape[0], *wx.shape[2:4]))
    if not torch.compiler.is_compiling():  # there, the operator's fake meets bad shapes
        check_scan(cell, wx, R, b, states, R_diag, params)
    assert states is not None
    ordered = [params[p.name] for p in cell.params]
    tensors = (wx, R, R_diag, b, *ordered, *states)
    found = resolve_backend(backend, wx.device.type, wx.device.index)
    if found == "reference" or needs_reference(backend, tensors):
        return scan_reference(cell, wx, R, b, states, R_diag, dict(params))
    wanted = [True] * len(states)
    return scan_kernels(cell.text, wx, R, b, states, R_diag, ordered, wanted, variant, save)


def scan_kernels(
    cell: str,
    wx: Tensor,
    R: Tensor | None,
    b: Tensor | None,
    states: Sequence[Tensor],
    R_diag: Tensor | None,
    params: Sequence[Tensor],
    over_time: Sequence[bool],
    variant: str,
    save: str,
) -> tuple[States, States]:
    """The operator's call on checked tensors: plain values and torch operations only.

    So `torch.compile` can trace it; the cell comes as its JSON. States that are not wanted
    `over_time` may come back empty.
    """
    inputs = [t for t in (wx, R, R_diag, b, *params, *states) if t is not None]
    device, dtype = wx.device.type, wx.dtype
    computed = dtype
    if device == "cuda" and torch.is_autocast_enabled(device):
        computed = dtype = torch.get_autocast_dtype(device)
    elif device == "cpu" and dtype in (torch.float16, torch.bfloat16):
        # The states are as exact as float32 makes them, and rounded once.
        computed = torch.float32
    keep = mixed = False
    for tensor in inputs:
        keep = keep or tensor.requires_grad
        mixed = mixed or tensor.dtype != computed
    keep = keep and torch.is_grad_enabled()
    if mixed or computed not in KERNEL_DTYPES.get(device, ()):
        if not torch.compiler.is_compiling():
            _check_kinds(cell, wx, R, R_diag, b, params, states, computed)
        if any(t.dtype == torch.float64 for t in inputs):  # autocast leaves it alone, as torch's
            computed = dtype = torch.float64
        wx = wx.to(computed)
        R, b, R_diag = (None if t is None else t.to(computed) for t in (R, b, R_diag))
        states, params = [s.to(computed) for s in states], [p.to(computed) for p in params]
        inputs = [t for t in (wx, R, R_diag, b, *params, *states) if t is not None]
    if torch.compiler.is_compiling() or not all_plain(inputs) or is_watched():
        if not torch.compiler.is_compiling():
            _check_kinds(cell, wx, R, R_diag, b, params, states, computed)
        results = scan_op(wx, R, R_diag, b, params, states, cell, keep, over_time, variant, save)
    else:
        results = _scan_directly(
            cell, keep, over_time, variant, save, wx, R, R_diag, b, params, states
        )
    count = len(states)
    sequences, last = results[:count], results[count : 2 * count]
    if dtype != computed:
        sequences, last = [s.to(dtype) for s in sequences], [s.to(dtype) for s in last]
    return tuple(s.transpose(0, 1) for s in sequences), tuple(last)


def _check_kinds(
    cell: str,
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    states: Sequence[Tensor],
    computed: torch.dtype,
) -> None:
    """Refuse layouts and dtypes that no kernel takes, and dtypes that differ without autocast."""
    spec = cell_of(cell)
    named = {"wx": wx, "R": R, "R_diag": R_diag, "b": b}
    named |= {f"params[{p.name!r}]": t for p, t in zip(spec.params, params, strict=True)}
    named |= {f"states[{s.name}]": t for s, t in zip(spec.states, states, strict=True)}
    check_kernel_inputs(named, computed, KERNEL_DTYPES[wx.device.type])


def initial_states(like: Tensor, values: Sequence[float], shape: Sequence[int]) -> list[Tensor]:
    """The states before the first step where a caller gives none: constants, which nobody writes.

    On a GPU they are made once a size and stream, since filling them would take as long as a
    launch.

    Args:
        like: gives dtype and device.
        values: of each state.
        shape: of each.
    """
    cached = (
        not torch.compiler.is_compiling()
        and like.device.type == "cuda"
        and math.prod(shape) * like.element_size() <= _LARGEST_CONSTANT
        and all_plain((like,))
        and not is_watched()
        and not torch.cuda.is_current_stream_capturing()
    )
    if not cached:
        return [like.new_full(tuple(shape), value) for value in values]
    stream = torch._C._cuda_getCurrentRawStream(like.device.index)
    return [_constant(like.dtype, like.device, tuple(shape), v, stream) for v in values]


_LARGEST_CONSTANT = 2 * 2**20  # bytes; filling more takes longer than a launch


@lru_cache(maxsize=64)
def _constant(
    dtype: torch.dtype, device: torch.device, shape: tuple[int, ...], value: float, stream: int
) -> Tensor:
    with torch.inference_mode(False):
        return torch.full(shape, value, dtype=dtype, device=device)


freed_with_memory(_constant.cache_clear)


def _scan_directly(
    cell: str,
    keep: bool,
    over_time: Sequence[bool],
    variant: str,
    save: str,
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    states: Sequence[Tensor],
) -> Sequence[Tensor]:
    """What the operator does, without the host time of an operator."""
    stored = stored_states(cell, over_time, keep)
    call = Call(cell_of(cell), keep, stored, Choice(variant, save))
    if profiler_enabled():
        with torch.profiler.record_function("rnnc::scan"):
            return _run_directly(call, wx, R, R_diag, b, params, states)
    return _run_directly(call, wx, R, R_diag, b, params, states)


def _run_directly(
    call: Call,
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    states: Sequence[Tensor],
) -> Sequence[Tensor]:
    if call.keep:
        scan_apply: Callable[..., Sequence[Tensor]] = Scan.apply
        return scan_apply(call, wx, R, R_diag, b, *params, *states)
    return run_forward(call, wx, R, R_diag, b, params, states)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def resolve_backend(
    backend: Backend, device: str, index: int | None = None
) -> Literal["cpu", "cuda", "reference"]:
    """Which backend serves a device; the one place where `"auto"` takes the next best.

    Args:
        backend: the caller's.
        device: its type.
        index: its number; None where it has none.

    Raises:
        TensorError: there is no such backend, or it has no kernels for that device.
        NoCompilerError: the kernels were asked for by name, and there is no compiler.
        NoCudaError: likewise, and there is no CuPy, or the GPU is older than the kernels want.
    """
    if backend not in BACKENDS:
        raise TensorError(
            "backend", repr(backend), f"one of {', '.join(BACKENDS)}", 'backend="auto"'
        )
    if backend == "reference":
        return "reference"
    if backend != "auto" and device != backend:
        raise TensorError(
            "backend",
            f'"{backend}" with tensors on {device}',
            f"tensors on {backend}",
            f'tensor.to("{backend}"), or backend="auto"',
        )
    if device not in _FIND_COMPILER:
        _say_once(f"rnnc has no kernels for the device {device!r}: it runs the reference loop")
        return "reference"
    try:
        _FIND_COMPILER[device](index)
    except CompileError as error:
        if backend != "auto":
            raise
        what = "is no compiler" if isinstance(error, NoCompilerError) else "are no CUDA kernels"
        _say_once(f"rnnc runs the slow reference loop, since there {what}:\n{error}")
        return "reference"
    return "cpu" if device == "cpu" else "cuda"


_FIND_COMPILER: dict[str, Callable[[int | None], object]] = {
    "cpu": lambda index: find_compiler(),
    "cuda": find_cuda,
}


@cache
def _say_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
