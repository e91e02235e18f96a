"""Turkoglu et al., "Gating revisited: deep multi-layer RNNs that can be trained", IEEE TPAMI 44(8),
2022.

These are the paper's equations. The authors' code trains (1 - k) as a gate of its own, shifted by 1
as in JANET.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def star(k: Gate, h: State, *, z: Gate = gate(recurrent=False)):
    """Stackable recurrent cell: gradients keep their size through depth (Turkoglu et al., 2022)."""
    return tanh((1 - sigmoid(k)) * h + sigmoid(k) * tanh(z))
