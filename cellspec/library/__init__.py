"""The cells of the literature, one file per cell. A new cell needs a file and a line in `NAMES`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cell import CellSpec

#: Each name is a module of this folder that defines a cell of the same name.
NAMES: tuple[str, ...] = (
    "adaptive_lif",
    "antisymmetric_rnn",
    "atr",
    "brc",
    "cfc",
    "cfn",
    "cifg_lstm",
    "cornn",
    "damped_ema",
    "delayed_lif",
    "dropout_lstm",
    "elman",
    "ema",
    "exponential_lif",
    "fastgrnn",
    "fastrnn",
    "fitzhugh_nagumo",
    "gated_antisymmetric_rnn",
    "gilr",
    "gru",
    "hgrn",
    "hodgkin_huxley",
    "indrnn",
    "intersection_rnn",
    "irnn",
    "izhikevich",
    "janet",
    "leaky_rate",
    "lif",
    "lif_to_zero",
    "light_ru",
    "ligru",
    "lru",
    "lstm",
    "lstm_1997",
    "ltc",
    "mc_lstm",
    "mingru",
    "mingru_highway",
    "minimal_rnn",
    "minlstm",
    "nas_cell",
    "nbrc",
    "noisy_rate",
    "peephole_lstm",
    "qrnn",
    "ran",
    "rg_lru",
    "rlif_atan",
    "rlif_fast_sigmoid",
    "rlif_triangle",
    "s5",
    "scrn",
    "slstm",
    "slstm_without_r",
    "sru",
    "star",
    "synaptic_lif",
    "ugrnn",
    "unicornn",
    "zoneout_lstm",
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
