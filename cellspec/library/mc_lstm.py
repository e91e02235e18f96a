"""Ben-Ari & Shwartz-Ziv, "Sequence modeling using a memory controller extension for LSTM",
NIPS 2017 Time Series Workshop.

The control vector v feeds every gate. The prediction h feeds no gate.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mc_lstm(
    h: State,
    v: State,
    c: State,
    *,
    f: Gate = gate(source="v"),
    i: Gate = gate(source="v"),
    o: Gate = gate(source="v"),
    m: Gate = gate(source="v"),
    n: Gate = gate(source="v"),
):
    """LSTM whose prediction and control signal are apart (Ben-Ari & Shwartz-Ziv, 2017)."""
    c = sigmoid(f) * c + sigmoid(i) * tanh(n)
    h = sigmoid(o) * tanh(c)
    v = sigmoid(m) * tanh(c)
    return h, v, c
