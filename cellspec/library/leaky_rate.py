"""Yang et al., "Task representations in neural networks trained to perform many cognitive tasks",
Nature Neuroscience 22, 2019.

The constant alpha is the time step divided by the units' time constant. The caller adds the paper's
noise to the input.
"""

from ..declare import Constant, Gate, State, constant
from ..functions import softplus
from ..tracing.trace import cell


@cell
def leaky_rate(g: Gate, h: State, alpha: Constant = constant(0.1)):
    """Firing rates of leaky units, as neuroscience trains them (Yang et al., 2019)."""
    return (1 - alpha) * h + alpha * softplus(g)
