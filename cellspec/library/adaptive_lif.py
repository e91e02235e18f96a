"""Bellec et al., "A solution to the learning dilemma for recurrent networks of spiking neurons",
Nature Communications 11, 2020, equations 6 and 8 to 10.

The constants are the authors' for the accumulation of evidence: time constants of 20 ms and 2 s,
steps of 1 ms. The pseudo-derivative is the paper's, a triangle. Gradients pass through the reset
and the threshold. There is no refractory period.
"""

import math

from ..declare import Constant, Gate, State, constant
from ..functions import abs, heaviside, maximum
from ..gradients import replace_gradient
from ..tracing.trace import cell


@cell
def adaptive_lif(
    i: Gate,
    z: State,
    v: State,
    a: State,
    alpha: Constant = constant(math.exp(-1 / 20)),
    rho: Constant = constant(math.exp(-1 / 2000)),
    beta: Constant = constant(0.0174),
    threshold: Constant = constant(0.6),
    gamma: Constant = constant(0.3),
):
    """Recurrent spiking neurons whose threshold rises with each spike (Bellec et al., 2020)."""
    v = alpha * v + i - threshold * z
    a = rho * a + z
    u = (v - (threshold + beta * a)) / threshold
    z = replace_gradient(heaviside(u), u, slope=gamma * maximum(0, 1 - abs(u)))
    return z, v, a
