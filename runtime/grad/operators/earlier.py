"""Operators of exported files that earlier versions saved, by the operators of today.

Files hold their schemas, and say nothing of a backward: autograd differentiates what they call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...call.call import Tensors
from ...call.forms import OWN, RowsForm
from ...call.layer_call import Choice, cell_of
from ...call.masks import RESTART
from ...call.ragged import Ragged, as_of_one_layer
from ...call.settings import Asked, CallText, Settings, text_in_graph, write_call
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


def _rnn(of: Any) -> list[Tensor]:
    """Return the output, the last states, and if `keep` what a backward needs."""
    form = RowsForm(of.heads, of.dim) if of.rows else OWN
    own = of.layers, of.both, of.heads, of.dim, of.dropout
    choice = Choice(of.variant, of.save, of.precision)
    settings = Settings(cell_of(of.cell), *own, "auto", choice, of.order, form)
    asked = Asked(given=bool(of.states), drawn=of.masks is not None, joint=of.joint)
    drawn = [] if of.masks is None else [of.masks]
    written = CallText(settings, of.keep, asked, tuple(of.given))
    return _run([of.x, *of.states, *of.weights, *drawn], written, of.cell)


def _scan(of: Any) -> list[Tensor]:
    """Return the states at all steps (T, B, N, D), empty where not wanted, and the last ones."""
    choice = Choice(of.variant, of.save, of.precision, of.reverse)
    spec, wx = cell_of(of.cell), of.wx
    sizes = 1, False, int(wx.shape[2]), int(wx.shape[3]), 0.0
    settings = Settings(spec, *sizes, "auto", choice)
    ragged = None if of.steps is None else _rows(of.steps, of.longest, of.reset_to, of.reverse)
    every = any(of.over_time[1:])
    asked = Asked(ragged and ragged.kind, given=True, takes_wx=True, all_states=every)
    weights = (None, of.R, of.b, of.R_diag, *of.params)
    present = tuple([weight is not None for weight in weights])
    tensors = Tensors(wx, of.initial, weights, ragged, tuple(of.inputs or ()))
    flat = [tensor for tensor in tensors.flat() if tensor is not None]
    found = _run(flat, CallText(settings, of.keep, asked, present), of.cell)
    sequences = found[: len(spec.states) if every else 1]
    missing = [wx.new_empty(0, *state.shape) for state in of.initial[len(sequences) :]]
    # Graphs have a name for each result, also for what only a backward read.
    end = len(sequences) + len(spec.states)
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


def _register(name: str, run: Callable[[Any], list[Tensor]]) -> None:
    """Register what runs an operator, and gets its arguments by the names of the schema."""
    arguments = getattr(torch.ops.rnnc, name).default._schema.arguments
    names = [argument.name for argument in arguments]
    defaults = {each.name: each.default_value for each in arguments if each.has_default_value()}

    def called(*values: Any, **named: Any) -> list[Tensor]:
        return run(SimpleNamespace(**defaults | dict(zip(names, values, strict=False)) | named))

    _LIBRARY.impl(name, called, "CompositeImplicitAutograd")


_register("rnn", _rnn)
_register("scan", _scan)
