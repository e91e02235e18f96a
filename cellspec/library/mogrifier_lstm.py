"""Melis, Kocisky & Blunsom, "Mogrifier LSTM", ICLR 2020, equations 1 and 2, with the paper's usual
five rounds and full matrices.

`x` is the input that is modulated: through a matrix, such as that of an embedding.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def mogrifier_lstm(
    h: State,
    c: State,
    *,
    x: Gate = gate(recurrent=False, bias=False),
    q1: Gate = gate(input=False, bias=False),
    r2: Gate = gate(input=False, bias=False),
    q3: Gate = gate(input=False, bias=False),
    r4: Gate = gate(input=False, bias=False),
    q5: Gate = gate(input=False, bias=False),
    i_x: Gate = gate(input=False, bias=False),
    f_x: Gate = gate(input=False, bias=False),
    z_x: Gate = gate(input=False, bias=False),
    o_x: Gate = gate(input=False, bias=False),
    i: Gate = gate(input=False),
    f: Gate = gate(input=False),
    z: Gate = gate(input=False),
    o: Gate = gate(input=False),
):
    """LSTM whose input and state modulate each other first (Melis et al., 2020)."""
    x1 = 2 * sigmoid(q1(h)) * x
    h2 = 2 * sigmoid(r2(x1)) * h
    x3 = 2 * sigmoid(q3(h2)) * x1
    h4 = 2 * sigmoid(r4(x3)) * h2
    x5 = 2 * sigmoid(q5(h4)) * x3
    c = sigmoid(f(h4) + f_x(x5)) * c + sigmoid(i(h4) + i_x(x5)) * tanh(z(h4) + z_x(x5))
    return sigmoid(o(h4) + o_x(x5)) * tanh(c), c
