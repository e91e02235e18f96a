"""Feng et al., "Were RNNs all we needed?", arXiv:2410.01201, 2024."""

from ..declare import Gate, State, gate
from ..functions import logsigmoid, sigmoid
from ..tracing.trace import cell


@cell
def minlstm(
    h: State,
    *,
    f: Gate = gate(recurrent=False),
    i: Gate = gate(recurrent=False),
    n: Gate = gate(recurrent=False),
):
    """LSTM whose gates see only the input and sum to one (Feng et al., 2024)."""
    # sigmoid(f) / (sigmoid(f) + sigmoid(i)), which would be 0 / 0 if both underflow.
    kept = sigmoid(logsigmoid(f) - logsigmoid(i))
    return kept * h + (1 - kept) * n
