"""Hodgkin & Huxley, "A quantitative description of membrane current and its application to
conduction and excitation in nerve", Journal of Physiology 117, 1952, equations 7, 12, 13, 15, 16,
20, 21, 23, 24 and 26, in mV, ms and µA/cm²: v rests at -65 mV, and spikes are upwards.

Ten sub-steps of `dt` for each step of the input: m, h and n, then v, move exponentially to where
the others pull them. A spike is a step that begins at 0 mV or below and ends above. R reads it, and
its surrogate is a fast sigmoid of `width` mV.
"""

from ..declare import Constant, Gate, State, constant, state
from ..functions import abs, clip, exp, expm1, heaviside, sigmoid, softsign, where, with_gradient
from ..tracing.repeat import repeat
from ..tracing.trace import cell


def _ramp(x):
    """Return x / (1 - exp(-x)), by its series near 0."""
    near = abs(x) < 0.02
    return where(near, 1 + x / 2 + x**2 / 12, x / -expm1(-where(near, 1, x)))


@cell
def hodgkin_huxley(
    i: Gate,
    s: State,
    v: State = state(-65.0),
    m: State = state(0.0529),
    h: State = state(0.5961),
    n: State = state(0.3177),
    dt: Constant = constant(0.01),
    width: Constant = constant(10.0),
):
    """Neurons with channels for sodium and potassium (Hodgkin & Huxley, 1952)."""

    def moved(x, rise, fall):
        return rise / fall + (x - rise / fall) * exp(-dt * fall)

    def gate(x, opening, closing):
        return moved(x, opening, opening + closing)

    def substep(v, m, h, n):
        e = clip(v, -200, 200)  # beyond, the rates are held, so that none overflows
        m = gate(m, _ramp((e + 40) / 10), 4 * exp(-(e + 65) / 18))
        h = gate(h, 0.07 * exp(-(e + 65) / 20), sigmoid((e + 35) / 10))
        n = gate(n, 0.1 * _ramp((e + 55) / 10), 0.125 * exp(-(e + 65) / 80))
        sodium, potassium = 120 * m**3 * h, 36 * n**4
        pull = 50 * sodium - 77 * potassium - 0.3 * 54.387 + i
        return moved(v, pull, sodium + potassium + 0.3), m, h, n

    below = 1 - heaviside(v)
    v, m, h, n = repeat(10, substep, v, m, h, n)
    return with_gradient(below * heaviside(v), of=softsign(v / width)), v, m, h, n
