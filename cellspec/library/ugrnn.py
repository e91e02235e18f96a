"""Collins, Sohl-Dickstein & Sussillo, "Capacity and trainability in recurrent neural networks",
ICLR 2017.
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def ugrnn(c: Gate, g: Gate, h: State):
    """Update gate RNN: one gate between carrying and computing (Collins et al., 2017)."""
    return sigmoid(g) * h + (1 - sigmoid(g)) * tanh(c)
