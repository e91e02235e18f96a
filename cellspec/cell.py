"""`CellSpec`: a recurrent cell as frozen, hashable data that checks itself."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from .check import check_cell
from .declare import Constant, Declaration, Gate, Input, Param, State, with_values
from .expression.graph import with_canonical_tags
from .expression.node import Node
from .names import is_usable
from .noise.draw import Draw
from .noise.mean import with_means
from .pairs import Pair, pairs_of
from .printing.equations import equation_lines, latex_block
from .printing.json_form import node_from, refused, updates_as_text, updates_from_text
from .recurrence.classify import Recurrence, classify
from .stages.levels import Levels, called_gates, first_stage, levels_of

# `repr` may shorten an update here, because a cell writes all of its updates together.
Expression = Annotated[Node, BeforeValidator(node_from), PlainSerializer(repr, return_type=str)]

# The context of a dump without the names of variables.
_WITHOUT_NAMES = "without names"


class CellSpec(BaseModel):
    """A recurrent cell: its declarations and the new value of each state.

    Attributes:
        name: the function's name.
        doc: its docstring, which is not part of the fingerprint.
        gates: the pre-activations g = x_g + R_g s + b_g, in the signature's order.
        states: the states; the first is also the output.
        inputs: values per step that the caller passes, or the call draws, and no weight multiplies.
        params: learned values, one per unit.
        constants: numbers that all units share.
        updates: the new value of each state, in the order of `states`, as its author wrote it:
            nothing is simplified or reordered.
        variables: values in the updates with the names that their author gave them. They are shown
            to people, and no part of the fingerprint and of comparisons.

    Raises:
        CellError: the parts contradict each other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str
    doc: str = ""
    gates: tuple[Gate, ...]
    states: tuple[State, ...]
    inputs: tuple[Input, ...] = ()
    params: tuple[Param, ...] = ()
    constants: tuple[Constant, ...] = ()
    updates: Annotated[tuple[Expression, ...], AfterValidator(with_canonical_tags)]
    variables: Annotated[tuple[tuple[Node, str], ...], Field(exclude=True, repr=False)] = ()

    @model_validator(mode="before")
    @classmethod
    def _read(cls, fields: Any) -> Any:
        return updates_from_text(fields) if isinstance(fields, dict) else fields

    @model_serializer(mode="wrap")
    def _write(
        self, others: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        names = {} if info.context == _WITHOUT_NAMES else self.variable_names
        written = {**others(self), **updates_as_text(self.updates, names)}
        if not self.inputs:  # a cell without has the text and the fingerprint that it always had
            written.pop("inputs", None)
        return written

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_cell(self)
        # Computed now, because torch.compile reads attributes but cannot trace this computation.
        _ = self.text, self.input_gates, self.constant_values, self._mean, self.has_stages
        return self

    # Derived facts. They keep the signature's order, which defines the layout of every weight.

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """All that the signature declares, one kind after the other."""
        return (*self.gates, *self.states, *self.inputs, *self.params, *self.constants)

    @cached_property
    def input_gates(self) -> tuple[str, ...]:
        """The gates with an input, in the order of the last axis of `wx`."""
        return tuple(g.name for g in self.gates if g.input)

    @cached_property
    def bias_gates(self) -> tuple[str, ...]:
        """The gates with a bias, in the order of the first axis of `b`."""
        return tuple(g.name for g in self.gates if g.bias)

    @cached_property
    def dense_pairs(self) -> tuple[Pair, ...]:
        """The dense recurrent matrices, in the order of the first axis of `R`."""
        return pairs_of(self, True)

    @cached_property
    def diagonal_pairs(self) -> tuple[Pair, ...]:
        """The diagonal recurrent weights, in the order of the first axis of `R_diag`."""
        return pairs_of(self, "diagonal")

    @cached_property
    def called(self) -> tuple[str, ...]:
        """The gates whose weights multiply a value of the step, which the cell calls; sorted."""
        return called_gates(self.updates)

    @cached_property
    def has_stages(self) -> bool:
        """True if the cell calls a gate or reduces over units."""
        return first_stage(self.updates) is not None

    @cached_property
    def levels(self) -> Levels:
        """The exchanges between units in a step.

        Example:
            >>> import rnnc
            >>> rnnc.cells.gru.levels.further
            0
        """
        return levels_of(self)

    @cached_property
    def drawn(self) -> dict[str, Draw]:
        """The inputs that a call draws unless the caller passes them, and from what."""
        return {i.name: i.draw for i in self.inputs if i.draw is not None}

    @property
    def draws_all_inputs(self) -> bool:
        """True if there are inputs, and a call draws each of them that is not passed."""
        return 0 < len(self.inputs) == len(self.drawn)

    @cached_property
    def constant_values(self) -> dict[str, float]:
        """The value of each constant."""
        return {c.name: c.value for c in self.constants}

    @cached_property
    def _mean(self) -> Self | None:
        return self.model_copy(update=with_means(self)) if self.drawn else None

    @cached_property
    def text(self) -> str:
        """The cell as JSON without docstring and variables: all that results depend on."""
        fields = self.model_dump(mode="json", exclude={"doc"}, context=_WITHOUT_NAMES)
        return json.dumps(fields, sort_keys=True)

    @cached_property
    def recurrence(self) -> Recurrence:
        """Kind of the cell's recurrence, and the reason.

        Example:
            >>> import rnnc
            >>> rnnc.cells.hgrn.recurrence.kind, rnnc.cells.indrnn.recurrence.kind
            ('affine', 'diagonal')
        """
        return classify(self)

    @cached_property
    def variable_names(self) -> dict[Node, str]:
        """The names of values, without those that something declared has, or its weights."""
        taken = {d.name for d in self.declarations}
        taken |= {f"{letter}_{gate.name}" for gate in self.gates for letter in "xRub"}
        return {n: name for n, name in self.variables if is_usable(name) and name not in taken}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that results depend on: the same on every machine."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def with_constants(self, **values: float) -> Self:
        """The same cell with other values of its constants.

        Args:
            **values: new values by name.

        Raises:
            CellError: the cell has no such constant, or a value is not finite.

        Example:
            >>> import rnnc
            >>> rnnc.cells.leaky_rate.with_constants(alpha=0.2).constants[0].value
            0.2
        """
        constants = with_values(self.constants, values, self.name)
        return self.model_copy(update={"constants": constants})

    def mean(self) -> Self:
        """The same cell with a constant in place of each drawn input: the mean of what is drawn.

        A call that does not sample runs this cell. A mean of 0 that is only added is left out. A
        cell without drawn inputs is its own mean.

        Example:
            >>> import rnnc
            >>> from rnnc import Gate, Input, State, sigmoid, uniform
            >>> @rnnc.cell
            ... def mixing(g: Gate, h: State, *, share: Input = uniform(0.25, 0.75)):
            ...     return share * h + (1 - share) * sigmoid(g)
            >>> mixing.mean().inputs, mixing.mean().constants
            ((), (Constant(name='share', value=0.5),))
        """
        return self._mean or self

    def to_json(self) -> str:
        """The cell as JSON, the same text in every process.

        Example:
            >>> import rnnc
            >>> rnnc.Cell.from_json(rnnc.cells.gru.to_json()) == rnnc.cells.gru
            True
        """
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The cell that a JSON text describes, checked like any other.

        Raises:
            CellError: the text is not JSON, lacks a field, or its cell is not valid.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise refused(error) from error

    def equations(self) -> tuple[str, ...]:
        """The cell as one line per gate and state; `h'` is the new value of a state `h`.

        Example:
            >>> import rnnc
            >>> rnnc.cells.elman.equations()
            ('g = x_g + R_g h + b_g', "h' = tanh(g)")
        """
        return equation_lines(self)

    def latex(self) -> str:
        """The cell as an `aligned` block of LaTeX, with time as an index."""
        return latex_block(self)

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def __str__(self) -> str:
        head = f"{self.name}: {self.doc}" if self.doc else self.name
        return "\n".join([head, *(f"  {e}" for e in self.equations())])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CellSpec) or type(other) is not type(self):
            return NotImplemented
        return self.doc == other.doc and self.text == other.text

    def __hash__(self) -> int:
        # Every call looks its kernels up by cell. Python caches the hash of a text.
        return hash(self.text)

    # A cell is a value: a copy is the cell itself, and a pickle is its JSON.

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any = None) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    # A copy with other fields must not keep facts derived from the old fields.

    def model_copy(self, *, update: Any = None, deep: bool = False) -> Self:
        """A copy with some fields replaced and all fields checked again."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**fields, **(update or {})})
