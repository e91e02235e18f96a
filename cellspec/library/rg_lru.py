"""De et al., "Griffin: mixing gated linear recurrences with local attention for efficient language
models", arXiv:2402.19427, 2024, equations 1 to 4.

`x` is the layer's input, and `decay` the paper's Lambda, which it draws so that a^c lies between
0.9 and 0.999. The paper's matrices of both gates are block-diagonal.
"""

from ..declare import Constant, Gate, Param, State, constant, gate, param
from ..functions import exp, expm1, logsigmoid, sigmoid, sqrt
from ..tracing.trace import cell


@cell
def rg_lru(
    h: State,
    *,
    r: Gate = gate(recurrent=False),
    i: Gate = gate(recurrent=False),
    x: Gate = gate(recurrent=False, bias=False),
    decay: Param = param(5.0),
    c: Constant = constant(8.0),
):
    """Linear recurrence that its input slows down or lets in (De et al., 2024)."""
    log_a = c * sigmoid(r) * logsigmoid(decay)
    # 1 - a^2, without the digits that a near 1 would cost.
    return exp(log_a) * h + sqrt(-expm1(2 * log_a)) * sigmoid(i) * x
