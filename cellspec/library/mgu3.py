"""Heck & Salem, "Simplified minimal gated unit variations for recurrent neural networks",
MWSCAS 2017: MGU3.

The gate is a bias alone, so n multiplies a value that waits for no other product of the step.
"""

from ..declare import Gate, Param, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mgu3(n: Gate, h: State, b_f: Param):
    """MGU whose gate is one learned number per unit (Heck & Salem, 2017)."""
    f = sigmoid(b_f)
    return (1 - f) * h + f * tanh(n(f * h))
