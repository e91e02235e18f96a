"""Kim, El-Khamy & Lee, "Residual LSTM: design of a deep recurrent architecture for distant speech
recognition", Interspeech 2017.

`x` is the layer's input, which the output adds: through a matrix, as in the paper where the sizes
differ. The projection `m` of the cell has as many units as the cell.
"""

from ..declare import Gate, Param, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def residual_lstm(
    h: State,
    c: State,
    p_i: Param,
    p_f: Param,
    p_o: Param,
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
    *,
    m: Gate = gate(input=False, bias=False),
    x: Gate = gate(recurrent=False, bias=False),
):
    """LSTM with a shortcut from its input to its output (Kim et al., 2017)."""
    c = sigmoid(f + p_f * c) * c + sigmoid(i + p_i * c) * tanh(z)
    return sigmoid(o + p_o * c) * (m(tanh(c)) + x), c
