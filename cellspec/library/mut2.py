"""Jozefowicz, Zaremba & Sutskever, "An empirical exploration of recurrent network architectures",
ICML 2015: MUT2.

In the paper the input enters `r` as it is: without a matrix. Here it has one, which also serves
where the sizes differ.
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mut2(z: Gate, r: Gate, n: Gate, h: State):
    """The second of three architectures found by mutation (Jozefowicz et al., 2015)."""
    candidate = tanh(n(sigmoid(r) * h))
    return sigmoid(z) * candidate + (1 - sigmoid(z)) * h
