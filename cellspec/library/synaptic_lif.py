"""Neftci et al., "Surrogate gradient learning in spiking neural networks", IEEE Signal Processing
Magazine 36, 2019: a current that spikes add to and that decays, as in `RSynaptic` of snnTorch.

As in snnTorch, the new current moves the potential, the spike has the ATan surrogate, and no
gradient passes through the reset.
"""

import math

from ..declare import Constant, Gate, State, constant
from ..functions import atan, heaviside, stop_gradient, with_gradient
from ..tracing.trace import cell


@cell
def synaptic_lif(
    i: Gate,
    s: State,
    syn: State,
    v: State,
    alpha: Constant = constant(0.8),
    beta: Constant = constant(0.9),
    threshold: Constant = constant(1.0),
    slope: Constant = constant(2.0),
):
    """Recurrent spiking neurons with a synaptic current (Neftci et al., 2019)."""
    syn = alpha * syn + i
    v = beta * v + syn - threshold * stop_gradient(s)
    u = v - threshold
    s = with_gradient(heaviside(u), of=atan(math.pi / 2 * slope * u) / math.pi)
    return s, syn, v
