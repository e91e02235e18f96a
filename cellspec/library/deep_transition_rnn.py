"""Pascanu et al., "How to construct deep recurrent neural networks", ICLR 2014, section 3.3.1: the
deep transition DT-RNN, with one hidden layer of D units between two states.
"""

from ..declare import Gate, State, gate
from ..functions import tanh
from ..tracing.trace import cell


@cell
def deep_transition_rnn(g: Gate, h: State, *, n: Gate = gate(input=False)):
    """Two layers from one state to the next (Pascanu et al., 2014)."""
    return tanh(n(tanh(g)))
