"""Operators of exported files that earlier versions saved, by the operators of today.

Files hold their schemas, and say nothing of a backward: autograd differentiates what they call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ....codegen.shape import Precision, Save
from ...call.call import Tensors
from ...call.forms import OWN, RowsForm
from ...call.layer_call import Choice, Order, cell_of
from ...call.masks import RESTART
from ...call.ragged import Ragged, as_of_one_layer
from ...call.settings import Asked, Settings
from ...call.text import CallText, text_in_graph, write_call
from .call import call_op

_LIBRARY: Any = torch.library.Library("rnnc", "FRAGMENT")  # type: ignore[no-untyped-call]
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(
    "scan(Tensor wx, Tensor? R, Tensor? R_diag, Tensor? b, Tensor[] params, Tensor[] initial,"
    " str cell, bool keep, bool[] over_time, str variant, str save, str? precision=None,"
    " bool reverse=False,"
    " Tensor? steps=None, Tensor? longest=None, Tensor[]? reset_to=None,"
    " Tensor[]? inputs=None) -> Tensor[]",
    tags=_TAGS,
)
_LIBRARY.define(
    "rnn(Tensor x, Tensor[] states, Tensor[] weights, Tensor? masks, bool keep,"
    " str cell, bool[] given, int layers, bool both, int heads, int dim, float dropout,"
    " str variant, str save, str? precision, str order, bool joint=False, bool rows=False)"
    " -> Tensor[]",
    tags=_TAGS,
)


def _rnn(
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    masks: Tensor | None,
    keep: bool,
    cell: str,
    given: Sequence[bool],
    layers: int,
    both: bool,
    heads: int,
    dim: int,
    dropout: float,
    variant: str,
    save: str,
    precision: str | None,
    order: str,
    joint: bool = False,
    rows: bool = False,
) -> list[Tensor]:
    """Return the output (T, B, features), the last states, and if `keep` what a backward needs.

    `given` says which of `LayerWeights.flat` each direction of each layer has.
    """
    choice = Choice(variant, cast(Save, save), cast(Precision, precision))
    form, own = RowsForm(heads, dim) if rows else OWN, (layers, both, heads, dim, dropout)
    settings = Settings(cell_of(cell), *own, "auto", choice, cast(Order, order), form)
    asked = Asked(given=bool(states), drawn=masks is not None, joint=joint)
    drawn = [] if masks is None else [masks]
    written = CallText(settings, keep, asked, tuple(given))
    return _run([x, *states, *weights, *drawn], written, cell)


def _scan(
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    cell: str,
    keep: bool,
    over_time: Sequence[bool],
    variant: str,
    save: str,
    precision: str | None = None,
    reverse: bool = False,
    steps: Tensor | None = None,
    longest: Tensor | None = None,
    reset_to: Sequence[Tensor] | None = None,
    inputs: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """Return the states at all steps (T, B, N, D), empty where not wanted, and the last ones."""
    choice = Choice(variant, cast(Save, save), cast(Precision, precision), reverse)
    spec, heads, dim = cell_of(cell), int(wx.shape[2]), int(wx.shape[3])
    settings = Settings(spec, 1, False, heads, dim, 0.0, "auto", choice)
    ragged = None if steps is None else _rows(steps, longest, reset_to, reverse)
    kind = None if ragged is None else ragged.kind
    every = any(over_time[1:])
    asked = Asked(kind, given=True, takes_wx=True, all_states=every)
    weights = (None, R, b, R_diag, *params)
    present = tuple([weight is not None for weight in weights])
    tensors = Tensors(wx, initial, weights, ragged, tuple(inputs or ()))
    flat = [tensor for tensor in tensors.flat() if tensor is not None]
    found = _run(flat, CallText(settings, keep, asked, present), cell)
    count = len(spec.states)
    sequences = found[: count if every else 1]
    missing = [wx.new_empty(0, *state.shape) for state in initial[len(sequences) :]]
    # Graphs have a name for each result, also for what only a backward read.
    end = len(sequences) + count
    return [*sequences, *missing, *found[len(sequences) : end], wx.new_empty(0)]


def _run(tensors: list[Tensor], written: CallText, cell: str) -> list[Tensor]:
    """Run a call; the text of its cell has a tab in graphs of `torch.compile`."""
    text = write_call(written)
    return call_op(tensors, text_in_graph(text) if "\t" in cell else text)  # type: ignore[no-any-return]


def _rows(
    steps: Tensor, longest: Tensor | None, reset_to: Sequence[Tensor] | None, reverse: bool
) -> Ragged:
    """Return lengths and resets from the masks, (T, B), that were made of them."""
    reset = steps == RESTART
    if reverse:  # there the step before a reset starts anew
        reset = torch.cat([reset.new_zeros(1, reset.shape[1]), reset[:-1]])
    lengths = None if longest is None else longest.to(torch.int64)
    values = None
    if reset_to is not None:
        values = []
        for value in reset_to:
            missing = reset.shape[0] - value.shape[1] if value.ndim == 4 else 0
            whole = F.pad(value, (0, 0, 0, 0, missing, 0)) if missing else value
            values.append(as_of_one_layer(whole))
    return Ragged(lengths, reset, values)


_LIBRARY.impl("rnn", _rnn, "CompositeImplicitAutograd")
_LIBRARY.impl("scan", _scan, "CompositeImplicitAutograd")
