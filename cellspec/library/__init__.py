"""The cells of the literature, one file per cell. A new cell needs a file and a line in `NAMES`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cell import CellSpec

#: Each name is a module of this folder that defines a cell of the same name.
NAMES: tuple[str, ...] = (
    "antisymmetric_rnn",
    "atr",
    "brc",
    "cfn",
    "cifg_lstm",
    "cornn",
    "elman",
    "fastgrnn",
    "fastrnn",
    "gated_antisymmetric_rnn",
    "gru",
    "hgrn",
    "indrnn",
    "intersection_rnn",
    "irnn",
    "janet",
    "leaky_rate",
    "light_ru",
    "ligru",
    "lstm",
    "lstm_1997",
    "mc_lstm",
    "mingru",
    "minimal_rnn",
    "minlstm",
    "nas_cell",
    "nbrc",
    "peephole_lstm",
    "qrnn",
    "ran",
    "scrn",
    "slstm",
    "sru",
    "star",
    "ugrnn",
    "unicornn",
)


def load(name: str) -> CellSpec:
    """The library's cell of that name.

    Raises:
        KeyError: the library has no such cell.
    """
    if name not in NAMES:
        raise KeyError(name)
    cell: CellSpec = getattr(importlib.import_module(f".{name}", __package__), name)
    return cell
