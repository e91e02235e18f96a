"""Ba, Kiros & Hinton, "Layer normalization", arXiv:1607.06450, 2016, the GRU of the supplement.

z and r are normed together, the candidate alone, each for W x and for R h. Haste norms all three
together.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import sigmoid, tanh
from ..stages.reductions import layer_norm
from ..tracing.trace import cell


@cell
def layer_norm_gru(
    h: State,
    *,
    z_x: Gate = gate(recurrent=False, bias=False),
    r_x: Gate = gate(recurrent=False, bias=False),
    n_x: Gate = gate(recurrent=False, bias=False),
    z_h: Gate = gate(input=False, bias=False),
    r_h: Gate = gate(input=False, bias=False),
    n_h: Gate = gate(input=False, bias=False),
    gain_z_x: Param = param(init=1.0),
    gain_r_x: Param = param(init=1.0),
    gain_n_x: Param = param(init=1.0),
    gain_z_h: Param = param(init=1.0),
    gain_r_h: Param = param(init=1.0),
    gain_n_h: Param = param(init=1.0),
    b_z: Param,
    b_r: Param,
    b_n: Param,
    b_m: Param,
):
    """GRU with layer norm of W x and of R h (Ba et al., 2016)."""
    z_x, r_x = layer_norm((z_x, r_x), (gain_z_x, gain_r_x))
    z_h, r_h = layer_norm((z_h, r_h), (gain_z_h, gain_r_h))
    z, r = sigmoid(z_x + z_h + b_z), sigmoid(r_x + r_h + b_r)
    n = tanh(layer_norm(n_x, gain_n_x, b_n) + r * layer_norm(n_h, gain_n_h, b_m))
    return (1 - z) * h + z * n
