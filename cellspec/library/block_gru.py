"""After Hafner et al., "Mastering diverse domains through world models", arXiv:2301.04104, 2023.

DreamerV3 has such a GRU with block matrices, but its hidden layer is normed over all blocks, and
reads the state of all of them. Here a head is a block: norms and products stay inside it.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import sigmoid, silu, tanh
from ..stages.reductions import rms_norm
from ..tracing.trace import cell


@cell
def block_gru(
    hid: Gate,
    h: State,
    *,
    r: Gate = gate(input=False),
    c: Gate = gate(input=False),
    u: Gate = gate(input=False),
    gain: Param = param(init=1.0),
):
    """GRU behind a normed hidden layer, in blocks (after Hafner et al., 2023)."""
    x = silu(rms_norm(hid, gain))
    k = sigmoid(u(x) - 1)
    return k * tanh(sigmoid(r(x)) * c(x)) + (1 - k) * h
