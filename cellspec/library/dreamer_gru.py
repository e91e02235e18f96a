"""Hafner et al., "Mastering Atari with discrete world models", ICLR 2021: the GRU of DreamerV2, in
the form of the authors' code.

All gates are normed together. The update gate starts nearly closed, by the -1.
"""

from ..declare import Gate, Param, State, param
from ..functions import sigmoid, tanh
from ..stages.reductions import layer_norm
from ..tracing.trace import cell


@cell
def dreamer_gru(
    r: Gate,
    n: Gate,
    u: Gate,
    h: State,
    *,
    gain_r: Param = param(init=1.0),
    gain_n: Param = param(init=1.0),
    gain_u: Param = param(init=1.0),
    b_r: Param,
    b_n: Param,
    b_u: Param,
):
    """GRU with one layer norm of all gates (Hafner et al., 2021)."""
    r, n, u = layer_norm((r, n, u), (gain_r, gain_n, gain_u), (b_r, b_n, b_u), eps=1e-3)
    u = sigmoid(u - 1)
    return u * tanh(sigmoid(r) * n) + (1 - u) * h
