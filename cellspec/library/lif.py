"""Eshraghian et al., "Training spiking neural networks using lessons from deep learning",
Proceedings of the IEEE 111, 2023: the leaky integrate-and-fire neuron of snnTorch.

The threshold is subtracted in the step after a spike. As in snnTorch, no gradient passes through
the reset, and the spike has the ATan surrogate of Fang et al., ICCV 2021: its slope is
(alpha / 2) / (1 + (pi alpha u / 2)^2) where the potential is u above the threshold.
"""

import math

from ..declare import Constant, Gate, State, constant, gate
from ..functions import atan, heaviside, stop_gradient, with_gradient
from ..tracing.trace import cell


@cell
def lif(
    s: State,
    v: State,
    *,
    i: Gate = gate(recurrent=False),
    beta: Constant = constant(0.9),
    threshold: Constant = constant(1.0),
    alpha: Constant = constant(2.0),
):
    """Leaky integrate-and-fire neurons, reset by subtraction (Eshraghian et al., 2023)."""
    v = beta * v + i - threshold * stop_gradient(s)
    u = v - threshold
    s = with_gradient(heaviside(u), of=atan(math.pi / 2 * alpha * u) / math.pi)
    return s, v
