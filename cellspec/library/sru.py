"""Lei et al., "Simple recurrent units for highly parallelizable recurrence", EMNLP 2018.

`u` is the paper's W x. The highway's `x` is the layer's input, through a matrix if the sizes
differ, times alpha = sqrt(1 + 2 exp(b)) for gate biases with the initial value b, by default 0.
"""

from ..declare import Constant, Gate, State, constant, gate
from ..functions import sigmoid
from ..tracing.trace import cell


@cell
def sru(
    h: State,
    c: State,
    *,
    u: Gate = gate(recurrent=False, bias=False),
    f: Gate = gate(recurrent="diagonal", source="c"),
    r: Gate = gate(recurrent="diagonal", source="c"),
    x: Gate = gate(recurrent=False, bias=False),
    alpha: Constant = constant(3**0.5),
):
    """Light recurrence and a highway, free of matrix products in time (Lei et al., 2018)."""
    # Both gates read the old c.
    r = sigmoid(r)
    c = sigmoid(f) * c + (1 - sigmoid(f)) * u
    h = r * c + (1 - r) * alpha * x
    return h, c
