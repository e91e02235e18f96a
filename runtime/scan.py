"""`rnnc.scan`: a cell over time as a function of tensors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from .check import check_scan
from .compile import find_compiler
from .errors import NoCompilerError, TensorError
from .ops import scan_op
from .reference import scan_reference

Backend = Literal["auto", "cpu", "reference"]
BACKENDS: tuple[Backend, ...] = ("auto", "cpu", "reference")
States = tuple[Tensor, ...]


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
        backend: `"cpu"`, the compiled kernels (float32 and float64; half precision is computed
            in float32); `"reference"`, a loop of torch operations for any dtype, device and order
            of derivative; `"auto"`, the kernels where there are some, else the reference, said
            once.

    Returns:
        All states at all steps, (B, T, N, D) each, and all states after the last step, (B, N, D)
        each. Gradients pass from both to wx, R, R_diag, b, params and the initial states.

    Raises:
        TensorError: a tensor is missing or does not fit; names it and what was expected.
        CompileError: the kernels could not be built.

    Example:
        >>> import torch, rnnc
        >>> wx = torch.randn(2, 5, 1, 8, 1)                      # B, T, N, D, gates
        >>> (h,), (last,) = rnnc.scan(rnnc.cells.elman, wx, torch.randn(1, 1, 8, 8))
        >>> h.shape, torch.equal(h[:, -1], last)
        (torch.Size([2, 5, 1, 8]), True)
    """
    params = {} if params is None else params
    if states is None and isinstance(wx, Tensor) and wx.ndim == 5:
        shape = (wx.shape[0], wx.shape[2], wx.shape[3])
        states = [wx.new_full(shape, s.init) for s in cell.states]
    if not torch.compiler.is_compiling():  # there, the operator's fake meets bad shapes
        check_scan(cell, wx, R, b, states, R_diag, params)
    assert states is not None
    ordered = [params[p.name] for p in cell.params]
    if resolve_backend(backend, wx.device.type) == "reference":
        return scan_reference(cell, wx, R, b, states, R_diag, dict(params))
    return scan_kernels(cell.text, wx, R, b, states, R_diag, ordered)


def scan_kernels(
    cell: str,
    wx: Tensor,
    R: Tensor | None,
    b: Tensor | None,
    states: Sequence[Tensor],
    R_diag: Tensor | None,
    params: Sequence[Tensor],
) -> tuple[States, States]:
    """The operator's call on checked tensors: plain values and torch operations only.

    So `torch.compile` can trace it; the cell comes as its JSON.
    """
    dtype = wx.dtype
    if dtype in (torch.float16, torch.bfloat16):
        # The states are as exact as float32 makes them, and rounded once.
        wx = wx.float()
        R, b, R_diag = (None if t is None else t.float() for t in (R, b, R_diag))
        states, params = [s.float() for s in states], [p.float() for p in params]
    inputs = [wx, R, b, R_diag, *states, *params]
    keep = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs)
    results = scan_op(wx, R, R_diag, b, params, states, cell, keep)
    count = len(states)
    over_time = tuple(s.transpose(0, 1).to(dtype) for s in results[:count])
    return over_time, tuple(s.to(dtype) for s in results[count : 2 * count])


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def resolve_backend(backend: Backend, device: str) -> Literal["cpu", "reference"]:
    """Which backend serves a device; the one place where `"auto"` takes the next best.

    Raises:
        TensorError: there is no such backend, or it has no kernels for that device.
        NoCompilerError: `"cpu"` was asked for by name, and there is no compiler.
    """
    if backend not in BACKENDS:
        raise TensorError(
            "backend", repr(backend), f"one of {', '.join(BACKENDS)}", 'backend="auto"'
        )
    if backend == "reference":
        return "reference"
    if device != "cpu":
        if backend == "cpu":
            raise TensorError(
                "backend",
                f'"cpu" with tensors on {device}',
                "tensors on the CPU",
                'tensor.to("cpu"), or backend="auto"',
            )
        _say_once(f"rnnc has no kernels for the device {device!r} yet: it runs the reference loop")
        return "reference"
    try:
        find_compiler()
    except NoCompilerError as error:
        if backend == "cpu":
            raise
        _say_once(f"rnnc runs the slow reference loop, for want of a compiler.\n{error}")
        return "reference"
    return "cpu"


@cache
def _say_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
