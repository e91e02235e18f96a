"""Lee, Levy & Zettlemoyer, "Recurrent additive networks", arXiv:1705.07393, 2017.

The paper's content layer W x has neither a bias nor a nonlinearity.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def ran(i: Gate, f: Gate, h: State, c: State, *, content: Gate = gate(recurrent=False, bias=False)):
    """Gated sum of linear inputs, squashed only at its output (Lee et al., 2017)."""
    c = sigmoid(i) * content + sigmoid(f) * c
    return tanh(c), c
