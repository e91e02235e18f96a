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
    "block_gru",
    "brc",
    "cfc",
    "cfc_backbone",
    "cfn",
    "cifg_lstm",
    "cornn",
    "damped_ema",
    "deep_transition_rnn",
    "delayed_lif",
    "dreamer_gru",
    "dropout_lstm",
    "dsgu",
    "elman",
    "ema",
    "entity_network",
    "exponential_lif",
    "fastgrnn",
    "fastrnn",
    "fitzhugh_nagumo",
    "gated_antisymmetric_rnn",
    "gilr",
    "gru",
    "gru_d",
    "gru_ode",
    "gru_reset_first",
    "hgrn",
    "hodgkin_huxley",
    "indrnn",
    "intersection_rnn",
    "irnn",
    "izhikevich",
    "janet",
    "joint_norm_lstm",
    "layer_norm_gru",
    "layer_norm_lstm",
    "layer_norm_rnn",
    "layer_norm_slstm",
    "leaky_rate",
    "lem",
    "lif",
    "lif_to_zero",
    "light_ru",
    "ligru",
    "lru",
    "lstm",
    "lstm_1997",
    "ltc",
    "mc_lstm",
    "mgu",
    "mgu1",
    "mgu2",
    "mgu3",
    "mingru",
    "mingru_highway",
    "minimal_rnn",
    "minlstm",
    "miru1",
    "miru2",
    "mogrifier_lstm",
    "multiplicative_lstm",
    "multiplicative_rnn",
    "mut1",
    "mut2",
    "mut3",
    "nas_cell",
    "nbrc",
    "nested_lstm",
    "noisy_rate",
    "peephole_lstm",
    "qrnn",
    "ran",
    "residual_lstm",
    "rg_lru",
    "rhn",
    "rlif_atan",
    "rlif_fast_sigmoid",
    "rlif_triangle",
    "s5",
    "scrn",
    "sgu",
    "sligru",
    "slstm",
    "slstm_without_r",
    "sru",
    "star",
    "synaptic_lif",
    "ugrnn",
    "unicornn",
    "wmc_lstm",
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
