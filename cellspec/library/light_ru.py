"""Ye et al., "Light recurrent unit: towards an interpretable recurrent neural network for modeling
long-range dependency", Electronics 13(16), 2024.

The paper's other part, the stack recurrent cell, changes what a deep network passes to its next
layer.
"""

from ..declare import Gate, State, gate
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def light_ru(f: Gate, h: State, *, n: Gate = gate(recurrent=False, bias=False)):
    """One gate between the past and an input's candidate (Ye et al., 2024)."""
    return (1 - sigmoid(f)) * h + sigmoid(f) * tanh(n)
