"""Semeniuta et al., "Recurrent dropout without memory loss", COLING 2016, equations 11 and 13.

The candidate is dropped at each step, and nothing of the memory. As in the paper, what is kept is
not scaled in training: without samples the candidate is multiplied by the share that is kept.
"""

from ..declare import Constant, Gate, Input, State, constant
from ..functions import sigmoid, tanh
from ..noise.distributions import bernoulli
from ..tracing.trace import cell


@cell
def dropout_lstm(
    i: Gate,
    f: Gate,
    z: Gate,
    o: Gate,
    h: State,
    c: State,
    *,
    kept: Input = bernoulli("share"),
    share: Constant = constant(0.75),
):
    """LSTM with dropout of its candidate (Semeniuta et al., 2016)."""
    c = sigmoid(f) * c + sigmoid(i) * (kept * tanh(z))
    return sigmoid(o) * tanh(c), c
