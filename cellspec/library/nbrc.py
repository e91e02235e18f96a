"""Vecoven, Ernst & Drion, "A bio-inspired bistable recurrent cell allows for long-lasting memory",
PLOS ONE 16(6), 2021.

The gates have biases in the authors' code; the candidate's input product `u` has none.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def nbrc(a: Gate, c: Gate, h: State, *, u: Gate = gate(recurrent=False, bias=False)):
    """Bistable units that set each other's feedback (Vecoven et al., 2021)."""
    return sigmoid(c) * h + (1 - sigmoid(c)) * tanh(u + (1 + tanh(a)) * h)
