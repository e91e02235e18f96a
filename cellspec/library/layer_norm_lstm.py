"""Ba, Kiros & Hinton, "Layer normalization", arXiv:1607.06450, 2016, equations 20 to 22.

As in the paper and in Haste, W x and R h are each normed over all four gates together, and only the
output reads the normed c. The biases of both norms are one, b. `joint_norm_lstm` norms the sum.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import sigmoid, tanh
from ..stages.reductions import layer_norm
from ..tracing.trace import cell


@cell
def layer_norm_lstm(
    h: State,
    c: State,
    *,
    i_x: Gate = gate(recurrent=False, bias=False),
    f_x: Gate = gate(recurrent=False, bias=False),
    z_x: Gate = gate(recurrent=False, bias=False),
    o_x: Gate = gate(recurrent=False, bias=False),
    i_h: Gate = gate(input=False, bias=False),
    f_h: Gate = gate(input=False, bias=False),
    z_h: Gate = gate(input=False, bias=False),
    o_h: Gate = gate(input=False, bias=False),
    gain_i_x: Param = param(init=1.0),
    gain_f_x: Param = param(init=1.0),
    gain_z_x: Param = param(init=1.0),
    gain_o_x: Param = param(init=1.0),
    gain_i_h: Param = param(init=1.0),
    gain_f_h: Param = param(init=1.0),
    gain_z_h: Param = param(init=1.0),
    gain_o_h: Param = param(init=1.0),
    b_i: Param,
    b_f: Param,
    b_z: Param,
    b_o: Param,
    gain_c: Param = param(init=1.0),
    b_c: Param,
):
    """LSTM with layer norm of W x, of R h and of c (Ba et al., 2016)."""
    x = layer_norm((i_x, f_x, z_x, o_x), (gain_i_x, gain_f_x, gain_z_x, gain_o_x))
    r = layer_norm((i_h, f_h, z_h, o_h), (gain_i_h, gain_f_h, gain_z_h, gain_o_h))
    i, f, z, o = (a + b + bias for a, b, bias in zip(x, r, (b_i, b_f, b_z, b_o), strict=True))
    c = sigmoid(f) * c + sigmoid(i) * tanh(z)
    return sigmoid(o) * tanh(layer_norm(c, gain_c, b_c)), c
