"""Collins, Sohl-Dickstein & Sussillo, "Capacity and trainability in recurrent neural networks",
ICLR 2017: the +RNN.

Every gate reads the state h. The output y goes only to the next layer. The paper mixes the layer's
input into y: `x` is that input, through a matrix if the sizes differ.
"""

from ..declare import Gate, State, gate
from ..functions import relu, sigmoid, tanh
from ..tracing.trace import cell


@cell
def intersection_rnn(
    y: State,
    h: State,
    *,
    y_in: Gate = gate(source="h"),
    h_in: Gate = gate(source="h"),
    g_y: Gate = gate(source="h"),
    g_h: Gate = gate(source="h"),
    x: Gate = gate(recurrent=False, bias=False),
):
    """Coupled gates through depth and through time (Collins et al., 2017)."""
    y = sigmoid(g_y) * x + (1 - sigmoid(g_y)) * relu(y_in)
    h = sigmoid(g_h) * h + (1 - sigmoid(g_h)) * tanh(h_in)
    return y, h
