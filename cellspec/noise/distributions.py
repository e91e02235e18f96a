"""`bernoulli`, `uniform` and `normal`: what the default of an `Input` says that a call draws."""

from __future__ import annotations

import math
from typing import Any

from ..declare import Input
from ..errors import CellError
from ..finite import as_float
from ..tracing.place import place_of_caller
from ..tracing.variables import running
from .draw import DISTRIBUTIONS, PER, Draw, Kind, Per, check_numbers


def bernoulli(p: float | str, *, per: Per = "step") -> Input:
    """Declare an input that a call draws: 1 with the probability `p`, else 0.

    Args:
        p: a number from 0 to 1, or the name of a constant of the cell.
        per: `"step"`, a value for each row, step and unit; `"sequence"`, one for each row and unit
            in the whole call.

    Raises:
        CellError: `p` is no such number, `per` is another word, or a cell's body calls this.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, Input, State, bernoulli, tanh
        >>> @rnnc.cell
        ... def zoneout(g: Gate, h: State, *, keep: Input = bernoulli(0.1)):
        ...     return keep * h + (1 - keep) * tanh(g)
        >>> print(zoneout)
        zoneout
          g = x_g + R_g h + b_g
          keep ~ bernoulli(0.1)
          h' = keep*h + (1 - keep)*tanh(g)
    """
    return _input("bernoulli", (p,), per)


def uniform(low: float | str = 0.0, high: float | str = 1.0, *, per: Per = "step") -> Input:
    """Declare an input that a call draws: each number from `low` to `high` is as likely.

    Args:
        low: a number, or the name of a constant of the cell.
        high: likewise, not below `low`.
        per: as in `bernoulli`.

    Raises:
        CellError: an argument is no such number, `per` is another word, or a cell's body calls
            this.

    Example:
        >>> from rnnc import uniform
        >>> uniform(high="width", per="sequence").draw
        uniform(0, 'width', per='sequence')
    """
    return _input("uniform", (low, high), per)


def normal(mean: float | str = 0.0, std: float | str = 1.0, *, per: Per = "step") -> Input:
    """Declare an input that a call draws from the normal distribution.

    Args:
        mean: a number, or the name of a constant of the cell.
        std: its standard deviation, likewise, not below 0.
        per: as in `bernoulli`.

    Raises:
        CellError: as `uniform`.

    Example:
        >>> import rnnc
        >>> from rnnc import Constant, Gate, Input, State, constant, normal, tanh
        >>> @rnnc.cell
        ... def noisy(
        ...     g: Gate,
        ...     h: State,
        ...     *,
        ...     xi: Input = normal(std="sigma"),
        ...     sigma: Constant = constant(0.05),
        ... ):
        ...     return tanh(g + xi)
        >>> print(noisy.with_constants(sigma=0.1))
        noisy
          g = x_g + R_g h + b_g
          xi ~ normal(0, sigma)
          h' = tanh(g + xi)
    """
    return _input("normal", (mean, std), per)


def _input(kind: Kind, arguments: tuple[Any, ...], per: Any) -> Input:
    return Input(name="", draw=_draw(kind, arguments, per))


def _draw(kind: Kind, arguments: tuple[Any, ...], per: Any) -> Draw:
    """Make the draw of an author's call.

    Args:
        kind: the function that was called.
        arguments: its arguments, whatever they are.
        per: the argument of this name.

    Raises:
        CellError: it is called while a cell's function runs, an argument is neither a finite number
            nor a name, the numbers are not allowed, or `per` is another word.
    """
    here, names = place_of_caller(), DISTRIBUTIONS[kind].arguments
    given = [a if isinstance(a, str) else as_float(a) for a in arguments]
    written = ", ".join(f"{n}={a!r}" for n, a in zip(names, arguments, strict=True))
    cell = running()
    if cell:
        raise CellError(
            f"{kind}({written}) in the body of a cell",
            "a draw as the default of an Input: the body runs once, and calls draw at each step",
            f"def {cell}(…, *, noise: Input = {DISTRIBUTIONS[kind].example}), and noise there",
        )
    if per not in PER:
        raise CellError(
            f"per={per!r}", " or ".join(f'"{word}"' for word in PER), 'per="sequence"', here
        )
    for name, argument, number in zip(names, arguments, given, strict=True):
        if isinstance(number, float) and not math.isfinite(number):
            raise CellError(
                f"{argument!r} as {name} of {kind}",
                "a finite number, or the name of a constant of the cell",
                f'{name}=0.1, or {name}="{name}" with {name}: Constant = constant(0.1)',
                here,
            )
    draw = Draw(kind=kind, arguments=tuple(given), per=per)
    if not draw.names:
        check_numbers(draw, {}, where=here)
    return draw
