"""What torch's recurrent modules compute, in the terms of this package."""

from __future__ import annotations

from typing import NamedTuple

from ...cellspec.cell import CellSpec
from ...cellspec.library.elman import elman
from ...cellspec.library.gru import gru
from ...cellspec.library.irnn import irnn
from ...cellspec.library.lstm import lstm
from ..call.call import Choice
from ..call.forms import TORCH, TORCH_GRU, Form
from ..call.settings import Settings


class Kind(NamedTuple):
    """What a module of torch computes.

    Attributes:
        cell: its equations.
        form: how its parameters hold the weights.
        gates: whose rows lie in its matrices.
    """

    cell: CellSpec
    form: Form
    gates: int

    def settings(self, layers: int, both: bool, hidden: int, dropout: float) -> Settings:
        """What a module is, besides its weights.

        Args:
            layers: their number.
            both: whether each layer runs in both directions of time.
            hidden: units of each direction of a layer.
            dropout: the probability of dropping a feature between layers.
        """
        sizes = layers, both, 1, hidden
        return Settings(self.cell, *sizes, dropout, "auto", Choice(), form=self.form)


_KINDS = {
    "LSTM": Kind(lstm, TORCH, 4),
    "GRU": Kind(gru, TORCH_GRU, 3),
    "RNN_TANH": Kind(elman, TORCH, 1),
    "RNN_RELU": Kind(irnn, TORCH, 1),
}


def kind_of(mode: str) -> Kind | None:
    """What a module computes; None if this package has no such cell.

    Args:
        mode: torch's word for it.
    """
    return _KINDS.get(mode)
