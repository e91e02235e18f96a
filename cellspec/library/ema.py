"""Hunter, "The exponentially weighted moving average", Journal of Quality Technology 18, 1986. The
weight is learned: for each unit the sigmoid of `alpha`.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import sigmoid
from ..tracing.trace import cell


@cell
def ema(h: State, *, x: Gate = gate(recurrent=False, bias=False), alpha: Param = param(0.0)):
    """Exponential moving average of the input (Hunter, 1986)."""
    return sigmoid(alpha) * x + (1 - sigmoid(alpha)) * h
