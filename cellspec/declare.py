"""Declarations of a cell's signature: gates, states, inputs, params and constants."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from .errors import CellError
from .tracing.place import place_of_caller

if TYPE_CHECKING:
    # In a cell's body a declared name is a number, so type checkers must see operators.
    from .tracing.tracer import Arithmetic as _Number
else:
    _Number = object


class _Declaration(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str


class Gate(_Declaration, _Number):
    """A pre-activation g = x_g + R_g s + b_g of each unit.

    Attributes:
        name: the argument's name.
        input: whether an input x_g is added.
        recurrent: whether a product with the previous state is added: `True`, a dense matrix per
            head; `"diagonal"`, one weight per unit; `False`, none.
        bias: whether a learned bias b_g is added.
        source: the states that feed the product, each through its own weights; empty without a
            product.

    Example:
        >>> import rnnc
        >>> rnnc.cells.gru.gates[3]
        Gate(name='m', input=False, recurrent=True, bias=True, source=())
    """

    input: bool = True
    recurrent: bool | Literal["diagonal"] = True
    bias: bool = True
    source: tuple[str, ...] = ()


class State(_Declaration, _Number):
    """A value that each unit carries from step to step.

    Attributes:
        name: the argument's name.
        init: its value before the first step, unless the caller passes one.

    Example:
        >>> import rnnc
        >>> rnnc.cells.lstm.states[1]
        State(name='c', init=0.0)
    """

    init: float = 0.0


class Input(_Declaration, _Number):
    """A value per step that the caller passes and no weight multiplies.

    For example a time stamp, a mask, noise or a phase. `rnnc.scan(…, inputs={name: tensor})` takes
    (B, T, N, D), anything that broadcasts to it, or (B, T): one value for all units.

    Attributes:
        name: the argument's name.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, Input, State, exp, tanh
        >>> @rnnc.cell
        ... def decaying(g: Gate, dt: Input, h: State):
        ...     return tanh(g) + exp(-dt) * h
        >>> decaying.inputs
        (Input(name='dt'),)
    """


class Param(_Declaration, _Number):
    """A learned value per unit.

    Attributes:
        name: the argument's name.
        init: its value in a new module.

    Example:
        >>> import rnnc
        >>> [p.name for p in rnnc.cells.fastgrnn.params]
        ['b_z', 'b_h', 'zeta', 'nu']
    """

    init: float = 0.0


class Constant(_Declaration, _Number):
    """A number that all units share; `cell.with_constants` changes it.

    Attributes:
        name: the argument's name.
        value: the number.

    Example:
        >>> import rnnc
        >>> rnnc.cells.leaky_rate.constants
        (Constant(name='alpha', value=0.1),)
    """

    value: float


def gate(
    input: bool = True,
    recurrent: bool | Literal["diagonal"] = True,
    bias: bool = True,
    source: str | tuple[str, ...] | None = None,
) -> Gate:
    """Declare a gate with options: a pre-activation x + R·s + b.

    Args:
        input: whether an input x is added.
        recurrent: `True` for a dense matrix R per head, `"diagonal"` for one weight per unit,
            `False` for no recurrent product.
        bias: whether the gate has a learned bias.
        source: the state or states that feed the recurrent product, each with its own R; the
            first state by default.

    Raises:
        CellError: the options leave the gate empty, or contradict each other.

    Example:
        >>> from rnnc import gate
        >>> gate(recurrent="diagonal", source="c").source
        ('c',)
    """
    sources = (source,) if isinstance(source, str) else source or ()
    if not isinstance(sources, tuple | list) or not all(isinstance(s, str) for s in sources):
        raise CellError(
            f"gate(source={'a function' if callable(source) else repr(source)})",
            "the name of a state, or a tuple of names: a product reads states of the previous step",
            'gate(source="h"); for a product of a value of this step see docs/limits.md',
            where=place_of_caller(),
        )
    options = {"input": input, "bias": bias, "recurrent": recurrent}
    for option, value in options.items():
        if not isinstance(value, bool) and (option, value) != ("recurrent", "diagonal"):
            diagonal = option == "recurrent" and isinstance(value, str)
            raise CellError(
                f"gate({option}={value!r})",
                "True or False" + (' or "diagonal"' if option == "recurrent" else ""),
                'gate(recurrent="diagonal")' if diagonal else f"gate({option}=False)",
                where=place_of_caller(),
            )
    return Gate(name="", input=input, recurrent=recurrent, bias=bias, source=tuple(sources))


def state(init: float = 0.0) -> State:
    """Declare a state that starts from `init` unless the caller passes initial states.

    Raises:
        CellError: `init` is not a finite number.

    Example:
        >>> from rnnc import state
        >>> state(init=1.0).init
        1.0
    """
    return State(name="", init=finite(init, "the initial value of a state"))


def param(init: float = 0.0) -> Param:
    """Declare a learned value per unit, which is `init` in a new module.

    Raises:
        CellError: `init` is not a finite number.

    Example:
        >>> from rnnc import param
        >>> param(init=-3.0).init
        -3.0
    """
    return Param(name="", init=finite(init, "the initial value of a param"))


def constant(value: float) -> Constant:
    """Declare a number that all units share; `cell.with_constants` can change it.

    Raises:
        CellError: `value` is not a finite number.

    Example:
        >>> from rnnc import constant
        >>> constant(0.1).value
        0.1
    """
    return Constant(name="", value=finite(value, "the value of a constant"))


def finite(value: Any, what: str, where: str = "") -> float:
    """A finite number as a float.

    Args:
        value: what the caller passed.
        what: what it is, for messages.
        where: its place, for messages; the caller's line where there is none.

    Raises:
        CellError: it is not a finite number.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        exact = float(value) if number else math.nan
    except OverflowError:  # a whole number beyond all floats
        exact = math.inf
    if not math.isfinite(exact):
        raise CellError(
            f"{value!r} as {what}",
            "a finite number",
            "for example 0.1",
            where=where or place_of_caller(),
        )
    return exact
