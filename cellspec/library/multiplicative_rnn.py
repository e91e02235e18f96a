"""Sutskever, Martens & Hinton, "Generating text with recurrent neural networks", ICML 2011,
equations 7 and 8, with as many factors as units.
"""

from ..declare import Gate, State, gate
from ..functions import tanh
from ..tracing.trace import cell


@cell
def multiplicative_rnn(
    n: Gate,
    h: State,
    *,
    x: Gate = gate(recurrent=False, bias=False),
    f: Gate = gate(input=False, bias=False),
):
    """Recurrent network whose matrix the input chooses (Sutskever et al., 2011)."""
    return tanh(n(x * f))
