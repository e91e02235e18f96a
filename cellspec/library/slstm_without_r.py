"""Beck et al., "xLSTM: extended long short-term memory", NeurIPS 2024, equations 8 to 17,
without R.

Then each part is a linear recurrence, or for the stabiliser m one of maxima. m begins far
below all gates, and not at 0 with a test of n: a condition on a state would be neither.
"""

from ..declare import Gate, State, gate, state
from ..functions import exp, logsigmoid, maximum, sigmoid, stop_gradient, tanh
from ..tracing.trace import cell


@cell
def slstm_without_r(
    h: State,
    c: State,
    n: State,
    m: State = state(-1e30),
    *,
    i: Gate = gate(recurrent=False),
    f: Gate = gate(recurrent=False),
    z: Gate = gate(recurrent=False),
    o: Gate = gate(recurrent=False),
):
    """LSTM with exponential gates that see only the input (Beck et al., 2024)."""
    kept = logsigmoid(f) + m
    m = stop_gradient(maximum(kept, i))
    c = exp(kept - m) * c + exp(i - m) * tanh(z)
    n = exp(kept - m) * n + exp(i - m)
    h = sigmoid(o) * c / n
    return h, c, n, m
