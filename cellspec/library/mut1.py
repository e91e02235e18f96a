"""Jozefowicz, Zaremba & Sutskever, "An empirical exploration of recurrent network architectures",
ICML 2015: MUT1.

The candidate has the tanh of the input itself: `x` is that input, through a matrix if the sizes
differ.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mut1(
    r: Gate,
    h: State,
    *,
    z: Gate = gate(recurrent=False),
    x: Gate = gate(recurrent=False, bias=False),
    n: Gate = gate(input=False),
):
    """The first of three architectures found by mutation (Jozefowicz et al., 2015)."""
    candidate = tanh(n(sigmoid(r) * h) + tanh(x))
    return sigmoid(z) * candidate + (1 - sigmoid(z)) * h
