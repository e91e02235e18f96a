"""Martin & Cundy, "Parallelizing linear recurrent neural nets over sequence length", ICLR 2018: the
gated impulse linear recurrent layer, with tanh.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def gilr(h: State, *, g: Gate = gate(recurrent=False), i: Gate = gate(recurrent=False)):
    """Gated average of values that depend only on the input (Martin & Cundy, 2018)."""
    return sigmoid(g) * h + (1 - sigmoid(g)) * tanh(i)
