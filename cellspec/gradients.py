"""Functions of the language about gradients that other functions of it make up."""

from __future__ import annotations

from typing import Any

from . import refuse
from .arguments import checked
from .functions import stop_gradient, with_gradient
from .tracing.refusing import shown
from .tracing.tracer import Arithmetic, Tracer, expression


@checked
def replace_gradient(
    value: Arithmetic | float, x: Arithmetic | float, slope: Arithmetic | float
) -> Any:
    """A value whose gradient goes to `x`, multiplied by a slope.

    It is `with_gradient(value, of=stop_gradient(slope) * x)`: no gradient reaches `value` and
    `slope`.

    Args:
        value: what the result is, exactly.
        x: what the gradient goes to.
        slope: the derivative by `x` that the gradient has.

    Raises:
        CellError: a missing argument, one too many or given twice, no argument of that name; all
            arguments are plain numbers, or one is not of the cell.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, State, replace_gradient, sigmoid, where
        >>> @rnnc.cell
        ... def spiking(g: Gate, s: State):
        ...     near = sigmoid(4 * g)
        ...     return replace_gradient(where(g > 0, 1, 0), g, slope=4 * near * (1 - near))
        >>> spiking.backward_equations()[0]
        'near = sigmoid(4*g)'
        >>> spiking.backward_equations()[1]
        'd_g = d_s_next*stop_gradient(4*near*(1 - near))'
    """
    given = (value, x, slope)
    for operand in given:
        expression(operand)
    if not any(isinstance(operand, Tracer) for operand in given):
        raise refuse.numbers_alone("replace_gradient", [*map(shown, given)])
    held = stop_gradient(slope) if isinstance(slope, Tracer) else slope
    return with_gradient(value, of=held * x)
