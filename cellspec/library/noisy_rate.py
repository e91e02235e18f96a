"""Yang et al., "Task representations in neural networks trained to perform many cognitive tasks",
Nature Neuroscience 22, 2019, equation 2: rates with private noise, inside of the activation.

The constant alpha is the time step divided by the units' time constant. The constant sigma is the
paper's sqrt(2 / alpha) sigma_rec, with its sigma_rec of 0.05: another alpha wants another sigma.
"""

import math

from ..declare import Constant, Gate, Input, State, constant
from ..functions import softplus
from ..noise.distributions import normal
from ..tracing.trace import cell


@cell
def noisy_rate(
    g: Gate,
    h: State,
    *,
    xi: Input = normal(std="sigma"),
    alpha: Constant = constant(0.1),
    sigma: Constant = constant(math.sqrt(2 / 0.1) * 0.05),
):
    """Firing rates of leaky units with noise (Yang et al., 2019)."""
    return (1 - alpha) * h + alpha * softplus(g + xi)
