"""Ravanelli et al., "Light gated recurrent units for speech recognition",
IEEE Transactions on Emerging Topics in Computational Intelligence 2(2), 2018.

The paper's batch norm acts only on the input products, so it belongs in front of the cell.
"""

from ..declare import Gate, State
from ..functions import relu, sigmoid
from ..tracing.trace import cell


@cell
def ligru(z: Gate, n: Gate, h: State):
    """GRU without a reset gate, with a rectified candidate (Ravanelli et al., 2018)."""
    return sigmoid(z) * h + (1 - sigmoid(z)) * relu(n)
