"""Beck et al., "xLSTM: extended long short-term memory", NeurIPS 2024, equations 8 to 17."""

from ..declare import Gate, State
from ..functions import exp, logsigmoid, maximum, minimum, sigmoid, stop_gradient, tanh, where
from ..tracing.trace import cell


@cell
def slstm(i: Gate, f: Gate, z: Gate, o: Gate, h: State, c: State, n: State, m: State):
    """LSTM with exponential gates, a normaliser n and a stabiliser m (Beck et al., 2024).

    The output does not depend on the stabiliser, so no gradient passes through it. At the first
    step, where n is 0, nothing is kept and only the input gate sets the scale.
    """
    kept = logsigmoid(f) + m
    m = stop_gradient(where(n == 0, i, maximum(i, kept)))
    i_scale = exp(i - m)
    # Positive only at the first step. Without a bound it could overflow, multiplied by c = 0.
    f_scale = exp(minimum(kept - m, 60))
    c = f_scale * c + i_scale * tanh(z)
    n = f_scale * n + i_scale
    h = sigmoid(o) * c / n
    return h, c, n, m
