"""Zyarah & Kudithipudi, "Minion gated recurrent unit for continual learning", arXiv:2503.06175,
2025: MiRU-1, in the form of torchrecurrent.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import sigmoid, tanh
from ..tracing.trace import cell


@cell
def miru1(r: Gate, n: Gate, h: State, update: Constant = constant(0.5)):
    """GRU with a number in place of the update gate (Zyarah & Kudithipudi, 2025)."""
    return update * h + (1 - update) * tanh(n(sigmoid(r) * h))
