"""Ba, Kiros & Hinton, "Layer normalization", arXiv:1607.06450, 2016, in the form of torchaudio's
transducers (`torchaudio.models.emformer_rnnt_base`).

The sum W x + R h is normed, over all four gates together, and the next step reads the normed c.
`layer_norm_lstm` is the form of the paper.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import sigmoid, tanh
from ..stages.reductions import layer_norm
from ..tracing.trace import cell


@cell
def joint_norm_lstm(
    h: State,
    c: State,
    *,
    i: Gate = gate(bias=False),
    f: Gate = gate(bias=False),
    z: Gate = gate(bias=False),
    o: Gate = gate(bias=False),
    b_i: Param,
    b_f: Param,
    b_z: Param,
    b_o: Param,
    gain_i: Param = param(init=1.0),
    gain_f: Param = param(init=1.0),
    gain_z: Param = param(init=1.0),
    gain_o: Param = param(init=1.0),
    gain_c: Param = param(init=1.0),
    b_c: Param,
):
    """LSTM with one layer norm of all gates, and one of c (Ba et al., 2016; torchaudio)."""
    gains, biases = (gain_i, gain_f, gain_z, gain_o), (b_i, b_f, b_z, b_o)
    i, f, z, o = layer_norm((i, f, z, o), gains, biases)
    c = layer_norm(sigmoid(f) * c + sigmoid(i) * tanh(z), gain_c, b_c)
    return sigmoid(o) * tanh(c), c
