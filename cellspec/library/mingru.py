"""Feng et al., "Were RNNs all we needed?", arXiv:2410.01201, 2024.

This form is without the paper's computation in log space, which only its parallel scan needs.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid
from ..tracing.trace import cell


@cell
def mingru(h: State, *, z: Gate = gate(recurrent=False), n: Gate = gate(recurrent=False)):
    """GRU whose gate and candidate see only the input (Feng et al., 2024)."""
    return (1 - sigmoid(z)) * h + sigmoid(z) * n
