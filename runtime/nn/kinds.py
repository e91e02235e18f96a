"""What torch's recurrent modules compute, in the terms of this package."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ...cellspec.cell import CellSpec
from ...cellspec.library import load
from ..autograd.settings import Settings
from ..call import Choice
from ..module.forms import TORCH, TORCH_GRU, Form


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


@cache
def kind_of(mode: str) -> Kind | None:
    """What a module computes; None if this package has no such cell.

    Args:
        mode: torch's word for it.
    """
    if mode == "LSTM":
        return Kind(load("lstm"), TORCH, 4)
    if mode == "GRU":
        return Kind(load("gru"), TORCH_GRU, 3)
    names = {"RNN_TANH": "elman", "RNN_RELU": "irnn"}
    return Kind(load(names[mode]), TORCH, 1) if mode in names else None
