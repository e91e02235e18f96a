"""Zoph & Le, "Neural architecture search with reinforcement learning", ICLR 2017.

The cell is that of TensorFlow's NASCell. One of its eight leaves multiplies the input product `x3`
by the recurrent product `r3`, which has the bias; the other leaves add them.
"""

from ..declare import Gate, State, gate
from ..functions import relu, sigmoid, tanh
from ..tracing.trace import cell


@cell
def nas_cell(
    g0: Gate,
    g1: Gate,
    g2: Gate,
    g4: Gate,
    g5: Gate,
    g6: Gate,
    g7: Gate,
    h: State,
    c: State,
    *,
    x3: Gate = gate(recurrent=False, bias=False),
    r3: Gate = gate(input=False),
):
    """The recurrent cell that a reinforcement learner found (Zoph & Le, 2017)."""
    c = tanh(tanh(sigmoid(g0) * relu(g1)) + c) * tanh(sigmoid(g2) + relu(x3 * r3))
    h = tanh(c * tanh(tanh(tanh(g4) * sigmoid(g5)) + sigmoid(tanh(g6) + sigmoid(g7))))
    return h, c
