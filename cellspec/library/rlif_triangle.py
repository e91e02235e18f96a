"""Esser et al., "Convolutional networks for fast, energy-efficient neuromorphic computing",
PNAS 113, 2016: the triangle, in the recurrent neuron of snnTorch (`RLeaky`).

The surrogate's slope is gamma max(0, 1 - |u|) where the potential is u above the threshold.
No gradient passes through the reset.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import abs, heaviside, maximum, stop_gradient
from ..gradients import replace_gradient
from ..tracing.trace import cell


@cell
def rlif_triangle(
    i: Gate,
    s: State,
    v: State,
    beta: Constant = constant(0.9),
    threshold: Constant = constant(1.0),
    gamma: Constant = constant(1.0),
):
    """Recurrent spiking neurons with the triangle surrogate (Esser et al., 2016)."""
    v = beta * v + i - threshold * stop_gradient(s)
    u = v - threshold
    s = replace_gradient(heaviside(u), u, slope=gamma * maximum(0, 1 - abs(u)))
    return s, v
