"""Zilly et al., "Recurrent highway networks", ICML 2017, equations 6 to 8, with depth 3.

Carry and transform gates are coupled, c = 1 - t, as in the paper's experiments. Each layer of the
step has its own matrices, and the first one reads the input.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


def _layer(h, t, s):
    """One highway layer on the state s."""
    return sigmoid(t) * tanh(h) + (1 - sigmoid(t)) * s


@cell
def rhn(
    H1: Gate,
    T1: Gate,
    s: State,
    *,
    H2: Gate = gate(input=False),
    T2: Gate = gate(input=False),
    H3: Gate = gate(input=False),
    T3: Gate = gate(input=False),
):
    """Recurrent highway network, three layers deep (Zilly et al., 2017)."""
    s1 = _layer(H1, T1, s)
    s2 = _layer(H2(s1), T2(s1), s1)
    return _layer(H3(s2), T3(s2), s2)
