"""Gao & Glowacka, "Deep gate recurrent neural network", ACML 2016: the deep simple gated unit.

The hard sigmoid is that of Theano and Keras at the time, clip(x / 5 + 1 / 2, 0, 1). torchrecurrent
takes torch's, with x / 6.
"""

from ..declare import Gate, State, gate
from ..functions import clip, sigmoid, tanh
from ..tracing.trace import cell


@cell
def dsgu(
    z: Gate,
    h: State,
    *,
    x: Gate = gate(recurrent=False),
    g: Gate = gate(input=False, bias=False),
    o: Gate = gate(input=False, bias=False),
):
    """Simple gated unit with a further product at its output (Gao & Glowacka, 2016)."""
    z = clip(0.2 * z + 0.5, 0, 1)
    out = sigmoid(o(tanh(g(x * h)) * h))
    return (1 - z) * h + z * out
