"""Zyarah & Kudithipudi, "Minion gated recurrent unit for continual learning", arXiv:2503.06175,
2025: MiRU-2, in the form of torchrecurrent.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import tanh
from ..tracing.trace import cell


@cell
def miru2(n: Gate, h: State, reset: Constant = constant(0.5), update: Constant = constant(0.5)):
    """GRU with numbers in place of both gates (Zyarah & Kudithipudi, 2025)."""
    return update * h + (1 - update) * tanh(n(reset * h))
