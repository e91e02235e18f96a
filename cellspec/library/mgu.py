"""Zhou et al., "Minimal gated unit for recurrent neural networks", International Journal of
Automation and Computing 13(3), 2016, equations 6a to 6c.
"""

from ..declare import Gate, State
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mgu(f: Gate, n: Gate, h: State):
    """GRU with one gate for reset and update (Zhou et al., 2016)."""
    f = sigmoid(f)
    return (1 - f) * h + f * tanh(n(f * h))
