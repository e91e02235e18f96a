"""FitzHugh, "Impulses and physiological states in theoretical models of nerve membrane",
Biophysical Journal 1, 1961, equations 1 and 2; x and the current z have the other sign, so that
impulses are upwards.

Ten Euler steps of `dt` for each step of the input. R reads the potential x.
"""

from ..declare import Constant, Gate, State, constant, state
from ..tracing.repeat import repeat
from ..tracing.trace import cell


@cell
def fitzhugh_nagumo(
    z: Gate,
    x: State = state(-1.1994),
    y: State = state(-0.6243),
    a: Constant = constant(0.7),
    b: Constant = constant(0.8),
    c: Constant = constant(3.0),
    dt: Constant = constant(0.02),
):
    """Excitable neurons with a potential x and a recovery y (FitzHugh, 1961)."""

    def euler(x, y):
        return x + dt * c * (x - x**3 / 3 - y + z), y + dt / c * (x + a - b * y)

    return repeat(10, euler, x, y)
