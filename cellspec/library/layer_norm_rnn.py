"""Ba, Kiros & Hinton, "Layer normalization", arXiv:1607.06450, 2016, equation 4.

The norm is over the units of a head.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import tanh
from ..stages.reductions import layer_norm
from ..tracing.trace import cell


@cell
def layer_norm_rnn(
    h: State, *, g: Gate = gate(bias=False), gain: Param = param(init=1.0), shift: Param
):
    """Simple recurrent network with layer norm (Ba et al., 2016)."""
    return tanh(layer_norm(g, gain, shift))
