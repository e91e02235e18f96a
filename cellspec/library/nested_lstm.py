"""Moniz & Krueger, "Nested LSTMs", ACML 2017, with two levels.

The memory c of the outer LSTM is the output of an inner one, whose memory is `inner`. What the
outer gates keep and add are the state and the input of the inner one.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def nested_lstm(
    h: State,
    c: State,
    inner: State,
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
    *,
    i_x: Gate = gate(input=False),
    f_x: Gate = gate(input=False),
    z_x: Gate = gate(input=False),
    o_x: Gate = gate(input=False),
    i_h: Gate = gate(input=False, bias=False),
    f_h: Gate = gate(input=False, bias=False),
    z_h: Gate = gate(input=False, bias=False),
    o_h: Gate = gate(input=False, bias=False),
):
    """LSTM whose memory is an LSTM (Moniz & Krueger, 2017)."""
    kept, x = sigmoid(f) * c, sigmoid(i) * tanh(z)
    added = sigmoid(i_x(x) + i_h(kept)) * tanh(z_x(x) + z_h(kept))
    inner = sigmoid(f_x(x) + f_h(kept)) * inner + added
    c = sigmoid(o_x(x) + o_h(kept)) * tanh(inner)
    return sigmoid(o) * tanh(c), c, inner
