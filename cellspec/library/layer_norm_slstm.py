"""Beck et al., "xLSTM: extended long short-term memory", NeurIPS 2024: the sLSTM with the group
norm that follows it in its block, one group per head and without a bias.

h feeds the gates, and its norm y is the output. The official code learns gain - 1.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import exp, logsigmoid, maximum, minimum, sigmoid, stop_gradient, tanh, where
from ..stages.reductions import layer_norm
from ..tracing.trace import cell


@cell
def layer_norm_slstm(
    y: State,
    h: State,
    c: State,
    n: State,
    m: State,
    *,
    i: Gate = gate(source="h"),
    f: Gate = gate(source="h"),
    z: Gate = gate(source="h"),
    o: Gate = gate(source="h"),
    gain: Param = param(init=1.0),
):
    """The sLSTM with a norm of its output over the units of a head (Beck et al., 2024)."""
    kept = logsigmoid(f) + m
    m = stop_gradient(where(n == 0, i, maximum(i, kept)))  # as in slstm.py
    i_scale, f_scale = exp(i - m), exp(minimum(kept - m, 60))
    c = f_scale * c + i_scale * tanh(z)
    n = f_scale * n + i_scale
    h = sigmoid(o) * c / n
    return layer_norm(h, gain), h, c, n, m
