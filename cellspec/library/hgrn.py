"""Qin, Yang & Zhong, "Hierarchically gated recurrent neural network for sequence modeling",
NeurIPS 2023.

The state is real, as in flash-linear-attention's layer. The paper's state is complex and rotates by
a learned angle. The paper's lower bound gamma grows from layer to layer, from 0. The output gate
and the norm follow the cell.
"""

from ..declare import Constant, Gate, State, constant, gate
from ..functions import sigmoid, silu
from ..tracing.trace import cell


@cell
def hgrn(
    h: State,
    *,
    c: Gate = gate(recurrent=False, bias=False),
    f: Gate = gate(recurrent=False, bias=False),
    gamma: Constant = constant(0.0),
):
    """Linear recurrence whose forget gate stays above a bound (Qin et al., 2023)."""
    kept = gamma + (1 - gamma) * sigmoid(f)
    return kept * h + (1 - kept) * silu(c)
