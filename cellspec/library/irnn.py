"""Le, Jaitly & Hinton, "A simple way to initialize recurrent networks of rectified linear units",
arXiv:1504.00941, 2015.

An IRNN differs from other such networks in its initial values: the identity for R and zeros for the
bias.
"""

from ..declare import Gate, State
from ..functions import relu
from ..tracing.trace import cell


@cell
def irnn(g: Gate, h: State):
    """Simple recurrent network of rectified linear units (Le et al., 2015)."""
    return relu(g)
