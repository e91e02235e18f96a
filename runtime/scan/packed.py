"""`rnnc.scan_packed`: a cell over sequences that follow each other in one tensor.

The kernels read padded tensors, (T, B) with T the longest sequence. The call itself gathers wx into
that form and the states back, by one copy each, and so its backward; a cell's `inputs` are gathered
before it. Nothing reads the values that a gather puts into padding. Where a scan plan runs them
from initial values, sequences stay where they lie, as one row that begins anew at each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Generator, Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.errors import kind_of
from ...codegen.shape import Precision, Save
from ...errors import TensorError
from ..call.layer_call import Choice
from ..call.plain import values_visible
from ..call.ragged import Places, places_of
from ..call.tensors import States
from ..check.masks import check_reset
from ..check.scan import check_is_cell
from ..check.tensor import check_kind, check_strided, check_tensor, shape_error
from ..check.unweighted import packed_inputs_in_order
from ..run.draws import Drawing, cell_of_call, check_drawing, with_draws_of_scan
from ..run.route import runs_as_one_row
from .scan import Given, run_scan


def scan_packed(
    cell: CellSpec | str,
    wx: Tensor,
    R: Tensor | None = None,
    b: Tensor | None = None,
    states: Sequence[Tensor] | None = None,
    *,
    cu_seqlens: Tensor,
    max_seqlen: int | None = None,
    R_diag: Tensor | None = None,
    params: Mapping[str, Tensor] | None = None,
    backend: str = "auto",
    variant: str = "auto",
    save: Save = "gates",
    precision: Precision = None,
    reverse: bool = False,
    reset: Tensor | None = None,
    reset_to: Sequence[Tensor] | None = None,
    inputs: Mapping[str, Tensor] | None = None,
    generator: Generator | None = None,
    sample: bool = True,
) -> tuple[States, States]:
    """Run a cell over sequences of several lengths that follow each other in one tensor.

    B sequences of `total` steps together, N heads, D units per head.

    Args:
        cell: the cell, or its name in `rnnc.cells`.
        wx: (total, N, D, Gx), the input's contribution to each gate that takes input.
        R: as in `rnnc.scan`.
        b: as in `rnnc.scan`.
        states: the states before the first step of each sequence, (B, N, D) each; by default each
            state's `init`.
        cu_seqlens: (B + 1) of int32, where each sequence begins and, last, `total`: 0 first, never
            decreasing. A sequence may be empty. On the device of wx, or on the CPU.
        max_seqlen: the steps of the longest sequence, or more; by default what `cu_seqlens` says,
            if it is on the CPU. On a GPU it is needed, since nothing waits for the GPU.
        R_diag: as in `rnnc.scan`.
        params: as in `rnnc.scan`.
        backend: as in `rnnc.scan`.
        variant: as in `rnnc.scan`.
        save: as in `rnnc.scan`.
        precision: as in `rnnc.scan`.
        reverse: whether the cell runs from the last step of each sequence to its first.
        reset: (total,) of bool, as in `rnnc.scan`.
        reset_to: for each state (N, D) or (B, N, D), as in `rnnc.scan`.
        inputs: a tensor for each `Input` of the cell, by name: (total,), one value for all units of
            a step, or what broadcasts to (total, N, D). One that the call draws may be left out.
        generator: as in `rnnc.scan`.
        sample: as in `rnnc.scan`.

    Returns:
        All states at all steps, (total, N, D) each, and all states after the last step that runs,
        (B, N, D) each.

    Raises:
        TensorError: as `rnnc.scan`; or `cu_seqlens` is wrong where the host can see it. Values on a
            GPU are clamped, so that nothing outside of a tensor is read or written; with
            `RNNC_CHECK=1` in the environment wrong ones are an error.
        PlanError: there is no plan of the variant for these sizes.
        CompileError: the kernels could not be built.

    Example:
        >>> import torch, rnnc
        >>> wx, R = torch.randn(7, 1, 8, 1), torch.randn(1, 1, 8, 8)
        >>> starts = torch.tensor([0, 2, 2, 7], dtype=torch.int32)  # of 2, 0 and 5 steps
        >>> (h,), (last,) = rnnc.scan_packed(rnnc.cells.elman, wx, R, cu_seqlens=starts)
        >>> h.shape, torch.equal(h[1], last[0]), torch.equal(h[6], last[2])
        (torch.Size([7, 1, 8]), True, True)
    """
    cell = check_is_cell(cell)
    steps = _check(cell, wx, cu_seqlens, max_seqlen, reset, reset_to)
    check_drawing(sample, generator, wx.device)
    starts = cu_seqlens.to(wx.device, non_blocking=True)
    choice = Choice(variant, save, precision, reverse)
    given = Given(wx, states, (R, b, R_diag), params, None, reset, reset_to, None)
    sizes, from_initial = (len(cu_seqlens) - 1, steps), states is None and reset_to is None
    if from_initial and runs_as_one_row(cell, choice, backend, wx, *sizes):
        own = packed_inputs_in_order(cell, inputs, wx) if inputs or cell.inputs else None
        return _scan_one_row(cell, backend, choice, given._replace(inputs=own), starts)
    lengths, places = places_of(starts, len(wx), steps)
    in_time = None if reset is None else reset[places.padded]
    cell = cell_of_call(cell, inputs, sample)
    if inputs is not None or cell.inputs:
        packed = packed_inputs_in_order(cell, inputs, wx)
        inputs = {name: _padded(value, places) for name, value in packed.items()}
        drawing = Drawing(inputs, sample, generator, in_time)
        inputs = with_draws_of_scan(cell, drawing, wx, (steps, len(lengths), *wx.shape[1:3]))
    reset = None if in_time is None else in_time.t()
    given = given._replace(lengths=lengths, reset=reset, inputs=inputs, places=places)
    over_time, last = run_scan(cell, backend, choice, given)
    return tuple(over_time), last


def _padded(value: Tensor, places: Places) -> Tensor:
    """Return an input of the cell (total, …) as (B, T, …); one value for all steps stays one."""
    return places.pad(value).transpose(0, 1) if value.shape[0] != 1 else value[None]


def _check(cell: CellSpec, wx: Any, starts: Any, max_seqlen: Any, reset: Any, reset_to: Any) -> int:
    """Check facts that `scan` does not see; return the steps of the longest sequence."""
    gates = cell.input_gates
    wanted = f"(total, N, D, {len(gates)}), the gates {', '.join(gates)} last"
    check_tensor("wx", wx, wanted)
    check_strided("wx", wx)
    if wx.ndim != 4:
        raise shape_error("wx", wx, wanted, "wx = x_projected.view(total, heads, head_dim, gates)")
    total = wx.shape[0]
    if reset is not None:
        check_reset(reset, (total,), "(total,)", "wx", wx)
    for value in reset_to if isinstance(reset_to, list | tuple) else ():
        if isinstance(value, Tensor) and value.ndim > 3:
            wanted = "(N, D) or (B, N, D)"
            raise shape_error("reset_to", value, wanted, "rnnc.scan, which takes stored states")
    wanted = f"(B + 1) of int32: where each sequence begins, and {total} last"
    if isinstance(starts, Tensor) and (starts.ndim != 1 or len(starts) < (2 if total else 1)):
        raise shape_error("cu_seqlens", starts, wanted, "F.pad(lengths.cumsum(0), (1, 0)).int()")
    advice = "cu_seqlens=torch.tensor(cu_seqlens, dtype=torch.int32)", "cu_seqlens.int()"
    check_kind("cu_seqlens", starts, None, (torch.int32, torch.int64), wanted, advice)
    if max_seqlen is not None and (type(max_seqlen) is bool or not isinstance(max_seqlen, int)):
        write = "max_seqlen=int(max_seqlen)"
        raise TensorError("max_seqlen", kind_of(max_seqlen), "a whole number", write)
    if max_seqlen is not None and max_seqlen < 0:
        raise TensorError("max_seqlen", str(max_seqlen), "a whole number, at least 0", "0")
    longest = _longest(starts, total, wanted) if values_visible(starts) else None
    if max_seqlen is None:
        if longest is None:
            raise TensorError(
                "max_seqlen",
                f"None, and cu_seqlens on {starts.device}, whose values are not known here",
                "the steps of the longest sequence, as a Python int",
                "max_seqlen=…, or cu_seqlens on the CPU",
            )
        return longest
    if longest is not None and longest > max_seqlen:
        found = f"{max_seqlen}, and a sequence of {longest} steps"
        write = f"max_seqlen={longest}"
        raise TensorError("max_seqlen", found, "the steps of the longest sequence", write)
    return cast(int, min(max_seqlen, total))


def _longest(starts: Tensor, total: int, wanted: str) -> int:
    """Return the steps of the longest sequence; raise for sequences that do not fill the total."""
    values = starts.tolist()
    lengths = [end - begin for begin, end in pairwise(values)]
    if values[0] != 0 or values[-1] != total:
        found = f"{values[0]} first and {values[-1]} last"
        raise TensorError("cu_seqlens", found, wanted, f"0 first and {total} last")
    if lengths and min(lengths) < 0:
        place = next(i for i, length in enumerate(lengths) if length < 0)
        found = f"{values[place + 1]} after {values[place]}"
        raise TensorError("cu_seqlens", found, wanted, "numbers that never decrease")
    return max(lengths, default=0)


def _scan_one_row(
    cell: CellSpec, backend: str, choice: Choice, given: Given, starts: Tensor
) -> tuple[States, States]:
    """Run sequences that begin with each state's `init` and are reset to it, as `scan_packed` does.

    Inputs are (total or 1, N or 1, D or 1) each. `starts`, (B + 1), says where each sequence begins
    and, last, the total; wrong ones are clamped.
    """
    wx, reset, inputs = given.wx, given.reset, given.inputs
    total = len(wx)
    begin, end = (part.long().clamp(0, total) for part in (starts[:-1], starts[1:]))
    anew = torch.zeros(total + 1, dtype=torch.bool, device=wx.device)
    anew = anew.index_fill(0, begin, True)[:total]
    if reset is not None:
        anew = anew | reset
    own = None if inputs is None else {name: each[None] for name, each in inputs.items()}
    row = given._replace(wx=wx[None], reset=anew[None], inputs=own)
    over_time, _ = run_scan(cell, backend, choice, row)
    states = tuple(state.squeeze(1) for state in over_time)
    place = (begin if choice.reverse else end - 1).clamp(0, total - 1)
    runs = (end > begin)[:, None, None]
    last = (state.index_select(0, place) for state in states)
    inits = [state.init for state in cell.states]
    return states, tuple(torch.where(runs, s, i) for s, i in zip(last, inits, strict=True))
