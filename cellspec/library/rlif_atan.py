"""Fang et al., "Incorporating learnable membrane time constant to enhance learning of spiking
neural networks", ICCV 2021: the ATan surrogate, in the recurrent neuron of snnTorch (`RLeaky`).

The surrogate's slope is (alpha / 2) / (1 + (pi alpha u / 2)^2) where the potential is u above the
threshold; the paper has alpha = 2. No gradient passes through the reset.
"""

import math

from ..declare import Constant, Gate, State, constant
from ..functions import atan, heaviside, stop_gradient, with_gradient
from ..tracing.trace import cell


@cell
def rlif_atan(
    i: Gate,
    s: State,
    v: State,
    beta: Constant = constant(0.9),
    threshold: Constant = constant(1.0),
    alpha: Constant = constant(2.0),
):
    """Recurrent spiking neurons with the ATan surrogate (Fang et al., 2021)."""
    v = beta * v + i - threshold * stop_gradient(s)
    u = v - threshold
    s = with_gradient(heaviside(u), of=atan(math.pi / 2 * alpha * u) / math.pi)
    return s, v
