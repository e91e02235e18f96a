"""Moumen & Parcollet, "Stabilising and accelerating light gated recurrent units for automatic
speech recognition", ICASSP 2023.

As in SpeechBrain, R h is normed over both gates together, without gain and bias. The norm of the
input products belongs in front of the cell, as in `ligru`.
"""

from ..declare import Gate, State, gate
from ..functions import relu, sigmoid
from ..stages.reductions import layer_norm
from ..tracing.trace import cell


@cell
def sligru(
    h: State,
    *,
    n: Gate = gate(recurrent=False),
    z: Gate = gate(recurrent=False),
    n_h: Gate = gate(input=False, bias=False),
    z_h: Gate = gate(input=False, bias=False),
):
    """Light GRU with a layer norm of its recurrent products (Moumen & Parcollet, 2023)."""
    n_h, z_h = layer_norm((n_h, z_h))
    z = sigmoid(z + z_h)
    return z * h + (1 - z) * relu(n + n_h)
