"""Elman, "Finding structure in time", Cognitive Science 14(2), 1990."""

from ..declare import Gate, State
from ..functions import tanh
from ..tracing.trace import cell


@cell
def elman(g: Gate, h: State):
    """Simple recurrent network (Elman, 1990)."""
    return tanh(g)
