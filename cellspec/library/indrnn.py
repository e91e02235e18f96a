"""Li et al., "Independently recurrent neural network (IndRNN): building a longer and deeper RNN",
CVPR 2018.
"""

from ..declare import Gate, State, gate
from ..functions import relu
from ..tracing.trace import cell


@cell
def indrnn(h: State, *, g: Gate = gate(recurrent="diagonal")):
    """Recurrent network whose units see only their own past (Li et al., 2018)."""
    return relu(g)
