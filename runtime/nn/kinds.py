"""Cells of torch's recurrent modules, in the terms of this package."""

from __future__ import annotations

from typing import NamedTuple

from ...cellspec.cell import CellSpec
from ...cellspec.library.elman import elman
from ...cellspec.library.gru import gru
from ...cellspec.library.irnn import irnn
from ...cellspec.library.lstm import lstm
from ..call.forms import TORCH, TORCH_GRU, Form
from ..call.layer_call import Choice
from ..call.settings import Settings


class Kind(NamedTuple):
    """Equations of a module of torch, and the form and number of gates of its weights."""

    cell: CellSpec
    form: Form
    gates: int

    def settings(self, layers: int, both: bool, hidden: int, dropout: float) -> Settings:
        """Return the settings of a module; `hidden` are the units of a direction of a layer."""
        sizes = layers, both, 1, hidden
        return Settings(self.cell, *sizes, dropout, "auto", Choice(), form=self.form)


_KINDS = {
    "LSTM": Kind(lstm, TORCH, 4),
    "GRU": Kind(gru, TORCH_GRU, 3),
    "RNN_TANH": Kind(elman, TORCH, 1),
    "RNN_RELU": Kind(irnn, TORCH, 1),
}


def kind_of(mode: str) -> Kind | None:
    """Return the kind of a module by torch's word for it; None if this package has no such cell."""
    return _KINDS.get(mode)
