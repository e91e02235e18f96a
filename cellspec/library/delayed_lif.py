"""Shrestha & Orchard, "SLAYER: spike layer error reassignment in time", NeurIPS 2018: axonal
delays, one for each neuron.

A spike arrives after one to four steps, weighted by its neuron's d1 to d4, so that a delay is
learned as weights. The neuron, its surrogate and its reset are those of `rlif_atan`.
"""

import math

from ..declare import Constant, Gate, Param, State, constant, gate, param
from ..functions import atan, heaviside, stop_gradient, with_gradient
from ..tracing.trace import cell


@cell
def delayed_lif(
    s: State,
    v: State,
    s1: State,
    s2: State,
    s3: State,
    a: State,
    *,
    i: Gate = gate(source="a"),
    d1: Param = param(0.25),
    d2: Param = param(0.25),
    d3: Param = param(0.25),
    d4: Param = param(0.25),
    beta: Constant = constant(0.9),
    threshold: Constant = constant(1.0),
    alpha: Constant = constant(2.0),
):
    """Recurrent spiking neurons with axonal delays (Shrestha & Orchard, 2018)."""
    v = beta * v + i - threshold * stop_gradient(s)
    u = v - threshold
    new = with_gradient(heaviside(u), of=atan(math.pi / 2 * alpha * u) / math.pi)
    return new, v, s, s1, s2, d1 * new + d2 * s + d3 * s1 + d4 * s2
