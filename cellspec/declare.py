"""Declarations of a cell's signature: gates, states, inputs, params and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from .errors import CellError
from .finite import finite
from .noise.draw import Draw
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

    if TYPE_CHECKING:

        def __call__(self, value: _Number | float) -> Any:
            """In a cell's body, the gate whose weights multiply a value of the step."""


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
    """A value per step that the caller passes, or the call draws, and no weight multiplies.

    For example a time stamp, a mask, noise or a phase. `rnnc.scan(…, inputs={name: tensor})` takes
    (B, T, N, D), anything that broadcasts to it, or (B, T): one value for all units. With a default
    made by `bernoulli`, `uniform` or `normal`, the call draws what the caller does not pass.

    Attributes:
        name: the argument's name.
        draw: the distribution that calls draw it from; None where the caller passes it.
        gradient: whether the backward gives its gradient; None where it does so unless calls draw
            the input. A call sets it by the tensors that it has.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, Input, State, exp, tanh
        >>> @rnnc.cell
        ... def decaying(g: Gate, dt: Input, h: State):
        ...     return tanh(g) + exp(-dt) * h
        >>> decaying.inputs
        (Input(name='dt'),)
    """

    draw: Draw | None = None
    gradient: bool | None = None

    @property
    def has_gradient(self) -> bool:
        """True if the backward gives its gradient."""
        return self.draw is None if self.gradient is None else self.gradient

    @model_serializer(mode="wrap")
    def _write(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = fields(self)
        for name in ("draw", "gradient"):
            if written[name] is None:  # the text and the fingerprint that cells always had
                del written[name]
        return written

    def __repr_args__(self) -> Any:
        """Return what `repr` shows: `draw` and `gradient` where there is one."""
        return [pair for pair in super().__repr_args__() if pair[1] is not None]


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


Declaration = Gate | State | Input | Param | Constant


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
            "the name of a state, or a tuple of names: what the product reads of the step before",
            'gate(source="h"); for a value of this step gate() and a call in the body, n(r * h)',
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


def with_values(
    constants: tuple[Constant, ...], values: dict[str, float], cell: str
) -> tuple[Constant, ...]:
    """The constants of a cell, some of them with other values.

    Args:
        constants: the constants as they are.
        values: the new value of each constant that changes, under the constant's name.
        cell: the name of the cell, for messages.

    Raises:
        CellError: the cell has no such constant, or a value is not finite.
    """
    known = [c.name for c in constants]
    for name, value in values.items():
        if name not in known:
            raise CellError(
                f"a constant {name!r}",
                f"one of {known}" if known else "no constant: the cell has none",
                f"with_constants({known[0] if known else ''}=…)",
                where=cell,
            )
        finite(value, f"the constant {name} of {cell}")
    return tuple(Constant(name=c.name, value=values.get(c.name, c.value)) for c in constants)
