"""Vecoven, Ernst & Drion, "A bio-inspired bistable recurrent cell allows for long-lasting memory",
PLOS ONE 16(6), 2021.

The gates have biases in the authors' code; the candidate's input product `u` has none.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def brc(
    h: State,
    *,
    a: Gate = gate(recurrent="diagonal"),
    c: Gate = gate(recurrent="diagonal"),
    u: Gate = gate(recurrent=False, bias=False),
):
    """Units that hold one of two states, each on its own (Vecoven et al., 2021)."""
    return sigmoid(c) * h + (1 - sigmoid(c)) * tanh(u + (1 + tanh(a)) * h)
