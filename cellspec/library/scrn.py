"""Mikolov et al., "Learning longer memory in recurrent neural networks", ICLR 2015 workshop,
arXiv:1412.7753.

The paper's h reads the new context s through P. Since P s is alpha P s_old + (1 - alpha) P B x, the
cell has a product with the old s, and the other term is part of the input of `g`. `b` is the
paper's B x. Both states have the same size.
"""

from ..declare import Constant, Gate, State, constant, gate
from ..functions import sigmoid
from ..tracing.trace import cell


@cell
def scrn(
    h: State,
    s: State,
    *,
    g: Gate = gate(source=("h", "s")),
    b: Gate = gate(recurrent=False, bias=False),
    alpha: Constant = constant(0.95),
):
    """Simple recurrent network with a slow context (Mikolov et al., 2015)."""
    return sigmoid(g), (1 - alpha) * b + alpha * s
