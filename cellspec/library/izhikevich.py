"""Izhikevich, "Simple model of spiking neurons", IEEE Transactions on Neural Networks 14, 2003,
equations 1 to 3: potentials in mV, a step of 1 ms.

As in the paper's program, the reset comes first, and the potential takes two half steps. The
constants are those of regular spiking. The paper has no gradient: the surrogate is a fast sigmoid
of `width` mV, and none passes through the reset.
"""

from ..declare import Constant, Gate, State, constant, state
from ..functions import heaviside, softsign, where, with_gradient
from ..tracing.trace import cell


@cell
def izhikevich(
    i: Gate,
    s: State,
    v: State = state(-65.0),
    u: State = state(-13.0),
    a: Constant = constant(0.02),
    b: Constant = constant(0.2),
    c: Constant = constant(-65.0),
    d: Constant = constant(8.0),
    width: Constant = constant(10.0),
):
    """Neurons that spike, burst or adapt by four constants (Izhikevich, 2003)."""
    fired = v > 30
    start, recovery = where(fired, c, v), where(fired, u + d, u)
    half = start + 0.5 * (0.04 * start**2 + 5 * start + 140 - recovery + i)
    v = half + 0.5 * (0.04 * half**2 + 5 * half + 140 - recovery + i)
    u = recovery + a * (b * v - recovery)
    above = (v - 30) / width
    return with_gradient(heaviside(above), of=softsign(above)), v, u
