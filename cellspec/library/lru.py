"""Orvieto et al., "Resurrecting recurrent neural networks for long sequences", ICML 2023.

A unit's state is complex, re + i im, and u + i v is its share of the paper's B u. The paper draws
nu and theta so that the eigenvalues lie on a ring, and gamma begins at log(1 - |lambda|^2) / 2. C
and D follow the cell, on both states: `all_states=True`.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import cos, exp, sin
from ..tracing.trace import cell


@cell
def lru(
    re: State,
    im: State,
    *,
    u: Gate = gate(recurrent=False, bias=False),
    v: Gate = gate(recurrent=False, bias=False),
    nu: Param = param(-1.06),
    theta: Param = param(1.14),
    gamma: Param = param(-0.35),
):
    """Linear recurrence that turns and shrinks a complex state (Orvieto et al., 2023)."""
    size, angle, scale = exp(-exp(nu)), exp(theta), exp(gamma)
    a, b = size * cos(angle), size * sin(angle)
    return a * re - b * im + scale * u, b * re + a * im + scale * v
