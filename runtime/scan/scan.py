"""`rnnc.scan`: a cell over time as a function of tensors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from operator import index
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from ...cellspec.cell import CellSpec
from ...codegen.shape import PRECISIONS, Precision, Save
from ..call.call import Call, Tensors
from ..call.layer_call import Choice, cell_of, check_words
from ..call.marks import constant_in_graphs
from ..call.options import check_choice, check_flag
from ..call.plain import may_be_known
from ..call.ragged import Places, Ragged, as_of_one_layer
from ..call.settings import Asked, Settings
from ..call.tensors import ScanInputs, States
from ..check.masks import check_lengths, check_masks
from ..check.scan import check_is_cell, check_scan, check_wx, params_in_order
from ..check.unweighted import unweighted_in_order
from ..grad.node import Ready, ready_if_alike, run_ready
from ..program.seen import Seen
from ..run.draws import Drawing, draws_of_scan
from ..run.known_calls import remember_ready
from ..run.route import run_call
from ..targets.registry import TARGETS, target_name


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
    sample: bool = True,
    generator: Generator | None = None,
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
            `"walk"` runs cells without R, a thread per unit, and `"scan"` those whose recurrence is
            affine, in tiles of time; `"alternating"` takes one or two launches per step; `"auto"`
            is the cheapest that fits.
        save: what the forward saves for the backward: the values of `"gates"`, or `"states"` alone.
            Then the backward computes the gates again, from wx, as walks and scans do anyway.
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
            shape. An `Input` with a distribution may be left out: the call draws it.
        sample: whether the call draws the inputs that have a distribution and are left out. If not,
            it runs `cell.mean()`, in which each is the mean of its distribution.
        generator: what they are drawn from, on the device of wx; None for torch's own.

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
    choice, weights = Choice(variant, save, precision, reverse), (R, b, R_diag)
    if cell.drawn or sample is not True or generator is not None:
        cell, inputs = draws_of_scan(cell, wx, Drawing(inputs, sample, generator, reset))
    given = Given(wx, states, weights, params, lengths, reset, reset_to, inputs)
    over_time, last = run_scan(cell, backend, choice, given)
    return tuple([state.transpose(0, 1) for state in over_time]), last


class Given(NamedTuple):
    """Tensors of a call as the caller gives them, whatever they are.

    Attributes:
        weights: R, b and R_diag.
        places: of packed rows, where wx is (total, N, D, Gx); `lengths`, `reset` and `inputs` are
            those of padded rows.
    """

    wx: Any
    states: Any
    weights: tuple[Any, Any, Any]
    params: Any
    lengths: Any
    reset: Any
    reset_to: Any
    inputs: Any
    places: Places | None = None

    @property
    def padded_wx(self) -> Any:
        """Return wx, of packed rows a tensor of no meaning with the sizes of padded ones."""
        wx, places = self.wx, self.places
        if places is None:
            return wx
        steps, batch = places.padded.shape
        return wx.new_empty(()).expand(batch, steps, *wx.shape[1:])


def run_scan(
    cell: CellSpec, backend: str, choice: Choice, given: Given
) -> tuple[list[Tensor], States]:
    """Run a call of either function; its states at all steps are (T, B, …) or (total, …)."""
    known = _known(cell, backend, choice, given)
    if known is not None:
        return run_ready(known)
    if not torch.compiler.is_compiling():  # under a compiler, the operator's fake checks shapes
        check_words(choice)
        check_choice("precision", choice.precision, PRECISIONS)
        check_flag("reverse", choice.reverse)
        _check(cell, given)
    tensors = _tensors(cell, given)
    key = _key(cell, backend, choice, tensors)
    if _runs_without_products(cell.text) and _reads_wx(backend, choice, given):
        choice = choice._replace(save="states")
    heads, dim = map(index, given.wx.shape[-3:-1])  # a kernel is of one size
    settings = Settings(cell, 1, False, heads, dim, 0.0, backend, choice)
    remember = partial(_remember, key, given.wx)
    return run_call(settings, tensors, Asked(takes_wx=True, all_states=True), remember)


@constant_in_graphs
def _runs_without_products(text: str) -> bool:
    cell = cell_of(text)  # torch 2.11 takes no argument of a graph for a constant, but a text of it
    return not (cell.dense_pairs or cell.has_stages)


def _reads_wx(backend: str, choice: Choice, given: Given) -> bool:
    """Return whether the backward of a cell without R reads wx: to save it again gains nothing."""
    if not isinstance(given.wx, Tensor) or given.places is not None or choice.save != "gates":
        return False
    name = target_name(given.wx.device.type, backend)
    return name is not None and choice.variant in TARGETS[name].variants_of_wx


# Calls that came before, of any cell.
_CALLS = Seen(512)


def _known(cell: CellSpec, backend: str, choice: Choice, given: Given) -> Ready | None:
    """Return what a call becomes, if a like one is known; else None."""
    wx, axes = given.wx, 5 if given.places is None else 4
    if not may_be_known() or not isinstance(wx, Tensor) or wx.ndim != axes:
        return None
    try:
        tensors = _tensors(cell, given)
        entry = _CALLS.find(_key(cell, backend, choice, tensors))
        if entry is None or entry.options != _rounds(entry.call, wx, choice):
            return None
        if tensors.ragged is not None and tensors.ragged.lengths is not None:
            if given.places is None:
                check_lengths(given.lengths, wx.shape[0], wx.shape[1])
            tensors = tensors._replace(ragged=tensors.ragged.on(wx, fills=False))
        return ready_if_alike(entry, tensors)
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError):
        return None  # no tensors, or another number of them: the checks say what is wrong


def _rounds(call: Call, wx: Tensor, choice: Choice) -> bool:
    """Return True if products of a call now round factors to TF32."""
    return TARGETS[call.target].rounds(wx.dtype, choice.precision)


def _remember(key: Hashable, wx: Tensor, ready: Ready) -> None:
    """Remember a call that passed all checks, and became `ready`."""
    if _CALLS.again(key):
        call = ready.entry.call
        remember_ready(_CALLS, key, wx, ready, _rounds(call, wx, call.directions[0].choice))


def _key(cell: CellSpec, backend: str, choice: Choice, tensors: Tensors) -> Hashable:
    """Return what differs between the calls of a loop."""
    x, rows = tensors.x, None if tensors.ragged is None else tensors.ragged.kind
    kind = x.shape, x.dtype, x.requires_grad, torch.is_grad_enabled(), len(tensors.states), rows
    return cell.text, backend, choice, *kind, tuple([weight is None for weight in tensors.weights])


def _tensors(cell: CellSpec, given: Given) -> Tensors:
    """Return the tensors of a call in the form of those of modules."""
    wx, states, weights, params, lengths, reset, reset_to, inputs, places = given
    ragged = None
    if not (lengths is None and reset is None):
        values = None if reset_to is None else [as_of_one_layer(value) for value in reset_to]
        in_time = None if reset is None else reset.t()
        ragged = Ragged(lengths, in_time, values, places=places)
    more = params_in_order(cell, params, wx) if params or cell.params else ()
    own = (None, *weights, *more)
    unweighted = () if inputs is None and not cell.inputs else _unweighted(cell, given)
    return Tensors(wx, tuple(states or ()), own, ragged, unweighted)


def _unweighted(cell: CellSpec, given: Given) -> tuple[Tensor, ...]:
    """Return the cell's inputs; an error in wx is reported before one in them."""
    wx = given.padded_wx
    if not torch.compiler.is_compiling():
        check_wx(cell, wx)
    return unweighted_in_order(cell, given.inputs, wx)


def _check(cell: CellSpec, given: Given) -> None:
    """Check the tensors of a call."""
    wx, states = given.padded_wx, given.states
    own = params_in_order(cell, given.params, wx)
    if states is None and isinstance(wx, Tensor) and wx.layout == torch.strided and wx.ndim == 5:
        shape = (wx.shape[0], *wx.shape[2:4])
        states = [wx.new_empty(()).expand(shape)] * len(cell.states)
    unweighted = () if given.inputs is None and not cell.inputs else _unweighted(cell, given)
    R, b, R_diag = given.weights
    check_scan(cell, ScanInputs(wx, R, b, states, R_diag, own, None, unweighted))
    rows = given.lengths, given.reset, given.reset_to
    if any(each is not None for each in rows):
        check_masks(cell, *rows, wx)
