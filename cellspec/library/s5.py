"""Smith, Warrington & Linderman, "Simplified state space layers for sequence modeling", ICLR 2023,
in steps of a zero-order hold.

A unit's state is one of the complex pairs, re + i im, and u + i v is its share of the paper's B u.
Its eigenvalue is alpha + i omega, with alpha below 0, and `step` is the logarithm of its time step.
The paper takes eigenvalues of the HiPPO matrix. C and D follow the cell, on both states:
`all_states=True`.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import cos, exp, expm1, sin
from ..tracing.trace import cell


@cell
def s5(
    re: State,
    im: State,
    *,
    u: Gate = gate(recurrent=False, bias=False),
    v: Gate = gate(recurrent=False, bias=False),
    alpha: Param = param(-0.5),
    omega: Param = param(3.14),
    step: Param = param(-4.6),
):
    """State space model of one complex state per unit (Smith et al., 2023)."""
    dt = exp(step)
    angle = omega * dt
    # exp(lambda dt) - 1 = p + i q, without the digits that 1 would cost.
    grown = expm1(alpha * dt)
    p, q = grown * cos(angle) - 2 * sin(angle / 2) ** 2, (grown + 1) * sin(angle)
    size = alpha**2 + omega**2
    held, turned = (alpha * p + omega * q) / size, (alpha * q - omega * p) / size
    new_re = re + p * re - q * im + held * u - turned * v
    new_im = im + q * re + p * im + turned * u + held * v
    return new_re, new_im
