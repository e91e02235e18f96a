"""Fourcaud-Trocmé et al., "How spike generation mechanisms determine the neuronal response to
fluctuating inputs", Journal of Neuroscience 23, 2003: potentials in mV, times in ms.

An Euler step of `dt`. The gate is the current times the membrane's resistance. There is no
refractory period. The paper has no gradient: the surrogate is a fast sigmoid of `width` mV, and
none passes through the reset.
"""

from ..declare import Constant, Gate, State, constant, state
from ..functions import exp, heaviside, softsign, where, with_gradient
from ..tracing.trace import cell


@cell
def exponential_lif(
    i: Gate,
    s: State,
    v: State = state(-65.0),
    dt: Constant = constant(0.1),
    tau: Constant = constant(10.0),
    rest: Constant = constant(-65.0),
    onset: Constant = constant(-59.9),
    sharpness: Constant = constant(3.48),
    peak: Constant = constant(-30.0),
    reset: Constant = constant(-68.0),
    width: Constant = constant(10.0),
):
    """Integrate-and-fire neurons with an exponential upstroke (Fourcaud-Trocmé et al., 2003)."""
    start = where(v > peak, reset, v)
    upstroke = sharpness * exp((start - onset) / sharpness)
    v = start + dt / tau * (rest - start + upstroke + i)
    above = (v - peak) / width
    return with_gradient(heaviside(above), of=softsign(above)), v
