"""The cells of the literature, one file each: joining `NAMES` is all that a new one takes."""

from __future__ import annotations

import importlib

from ..cell import CellSpec

#: Each is a module of this folder that defines a cell of the same name.
NAMES: tuple[str, ...] = (
    "cifg_lstm",
    "elman",
    "gru",
    "irnn",
    "lstm",
    "lstm_1997",
    "mc_lstm",
    "nas_cell",
    "peephole_lstm",
    "slstm",
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
