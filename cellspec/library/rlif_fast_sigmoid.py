"""Zenke & Ganguli, "SuperSpike: supervised learning in multilayer spiking neural networks", Neural
Computation 30, 2018: the fast sigmoid, in the recurrent neuron of snnTorch (`RLeaky`).

The surrogate's slope is 1 / (1 + k |u|)^2 where the potential is u above the threshold; k is
snnTorch's. No gradient passes through the reset.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import heaviside, softsign, stop_gradient, with_gradient
from ..tracing.trace import cell


@cell
def rlif_fast_sigmoid(
    i: Gate,
    s: State,
    v: State,
    beta: Constant = constant(0.9),
    threshold: Constant = constant(1.0),
    k: Constant = constant(25.0),
):
    """Recurrent spiking neurons with the fast-sigmoid surrogate (Zenke & Ganguli, 2018)."""
    v = beta * v + i - threshold * stop_gradient(s)
    u = v - threshold
    s = with_gradient(heaviside(u), of=softsign(k * u) / k)
    return s, v
