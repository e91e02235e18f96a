"""Chen, "MinimalRNN: toward more interpretable and trainable recurrent neural networks",
NIPS 2017 Symposium on Interpretable Machine Learning, arXiv:1711.06788.

The paper's u sees the input through z, as U_z z. That product does not depend on the state, so it
is the input of `u` here. In a module, which maps x by a matrix there, the two matrices are
independent.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def minimal_rnn(u: Gate, h: State, *, z: Gate = gate(recurrent=False)):
    """One update gate between the past and an encoded input (Chen, 2017)."""
    return sigmoid(u) * h + (1 - sigmoid(u)) * tanh(z)
