"""Zhang et al., "Simplifying neural machine translation with addition-subtraction twin-gated
recurrent networks", EMNLP 2018.

As in the authors' code, the recurrent product q has a bias and the input product p has none.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid
from ..tracing.trace import cell


@cell
def atr(
    h: State,
    *,
    p: Gate = gate(recurrent=False, bias=False),
    q: Gate = gate(input=False),
):
    """Input and forget gate from one sum and one difference (Zhang et al., 2018)."""
    return sigmoid(p + q) * p + sigmoid(p - q) * h
