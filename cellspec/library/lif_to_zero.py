"""Eshraghian et al., "Training spiking neural networks using lessons from deep learning",
Proceedings of the IEEE 111, 2023: the leaky integrate-and-fire neuron of snnTorch.

In the step after a spike the potential starts from 0. No gradient passes through the reset. The
surrogate is that of `lif`.
"""

import math

from ..declare import Constant, Gate, State, constant, gate
from ..functions import atan, heaviside, stop_gradient, with_gradient
from ..tracing.trace import cell


@cell
def lif_to_zero(
    s: State,
    v: State,
    *,
    i: Gate = gate(recurrent=False),
    alpha: Constant = constant(2.0),
    beta: Constant = constant(0.9),
    threshold: Constant = constant(1.0),
):
    """Leaky integrate-and-fire neurons, reset to zero (Eshraghian et al., 2023)."""
    v = beta * v * (1 - stop_gradient(s)) + i
    u = v - threshold
    s = with_gradient(heaviside(u), of=atan(math.pi / 2 * alpha * u) / math.pi)
    return s, v
