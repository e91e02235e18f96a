"""Options of `rnnc.RNN`: as its calls read them, and as its text shows them."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from ...cellspec.cell import CellSpec
from ..call.layer_call import Choice
from ..call.settings import Settings
from ..targets.target import Target

if TYPE_CHECKING:
    from .rnn import RNN


class Options(nn.Module):
    """Part of `rnnc.RNN` that reads its options."""

    def _settings(self, training: bool, cell: CellSpec | None = None) -> Settings:
        """Return the settings of a call: features are dropped between layers in `training`.

        `cell` is the one that runs, where it is not that of the module but its mean.
        """
        rnn = cast("RNN", self)
        dropout = rnn.dropout if training else 0.0
        sizes = rnn.num_layers, rnn.bidirectional, rnn.heads, rnn.hidden_size // rnn.heads
        choice = Choice(rnn.variant, rnn.save, rnn.precision)
        own = rnn.cell if cell is None else cell
        return Settings(own, *sizes, dropout, rnn.backend, choice, rnn.layers, rnn._form)

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return what may be set between calls, of the module and of torch."""
        rnn = cast("RNN", self)
        tf32, dropout = target.rounds(dtype, rnn.precision), rnn.training and rnn.dropout
        sizes = rnn.heads, rnn.hidden_size, rnn.num_layers, rnn.bidirectional
        choice = rnn.variant, rnn.save, rnn.precision, rnn.layers
        return rnn.cell, sizes, dropout, tf32, rnn.backend, choice

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults, as text."""
        from .rnn import RNN

        rnn = cast(RNN, self)
        shown = [rnn.cell.name, str(rnn.input_size), str(rnn.hidden_size)]
        for name, option in signature(RNN).parameters.items():
            value = getattr(self, name, None)  # None for the device and the dtype of parameters
            if option.kind is option.KEYWORD_ONLY and value != option.default:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)
