"""A recurrent cell as data: frozen, hashable, self-checking."""

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
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from .check import check_cell
from .declare import Constant, Gate, Param, State, finite
from .errors import CellError
from .expression.graph import with_canonical_tags
from .expression.node import Node
from .printing.equations import equation_lines, latex_block
from .printing.json_form import node_from, updates_as_text, updates_from_text

# A cell writes all of its updates together: here they need not be more than short.
Expression = Annotated[Node, BeforeValidator(node_from), PlainSerializer(repr, return_type=str)]


class Pair(BaseModel):
    """A gate and a state that feeds it: one recurrent weight."""

    model_config = ConfigDict(frozen=True)

    gate: str
    source: str


class CellSpec(BaseModel):
    """What a recurrent cell is: its declarations and the new value of each state.

    Attributes:
        name: the function's name.
        doc: its docstring, for people; the fingerprint leaves it out.
        gates: the pre-activations g = x_g + R_g s + b_g, in the order of the signature.
        states: the states; the first is also the output.
        params: learned values of each unit.
        constants: numbers.
        updates: the new value of each state, in the order of `states`, over the names above, as
            written: nothing is simplified or put into another order.

    Raises:
        CellError: the parts contradict each other; the text says which and what to write.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str
    doc: str = ""
    gates: tuple[Gate, ...]
    states: tuple[State, ...]
    params: tuple[Param, ...] = ()
    constants: tuple[Constant, ...] = ()
    updates: Annotated[tuple[Expression, ...], AfterValidator(with_canonical_tags)]

    @model_validator(mode="before")
    @classmethod
    def _read(cls, fields: Any) -> Any:
        return updates_from_text(fields) if isinstance(fields, dict) else fields

    @model_serializer(mode="wrap")
    def _write(self, others: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {**others(self), **updates_as_text(self.updates)}

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_cell(self)
        # Facts that torch.compile reads as plain attributes: it cannot trace their computation.
        _ = self.text, self.input_gates
        return self

    # Derived facts. Orders are the signature's; they define the layout of every weight tensor.

    @cached_property
    def input_gates(self) -> tuple[str, ...]:
        """The gates that take a share of the input: the last axis of `wx`."""
        return tuple(g.name for g in self.gates if g.input)

    @cached_property
    def bias_gates(self) -> tuple[str, ...]:
        """The gates with a bias: the first axis of `b`."""
        return tuple(g.name for g in self.gates if g.bias)

    @cached_property
    def dense_pairs(self) -> tuple[Pair, ...]:
        """A pair for each dense recurrent matrix: the first axis of `R`."""
        return tuple(p for g in self.gates if g.recurrent is True for p in self._pairs(g))

    @cached_property
    def diagonal_pairs(self) -> tuple[Pair, ...]:
        """A pair for each diagonal recurrent weight: the first axis of `R_diag`."""
        return tuple(p for g in self.gates if g.recurrent == "diagonal" for p in self._pairs(g))

    def _pairs(self, gate: Gate) -> list[Pair]:
        sources = gate.source or (self.states[0].name,)
        return [Pair(gate=gate.name, source=source) for source in sources]

    @cached_property
    def text(self) -> str:
        """The JSON of all that makes results, without the docstring: what digests cover."""
        return json.dumps(self.model_dump(mode="json", exclude={"doc"}), sort_keys=True)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that makes results: the same in every process, on any machine."""
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
        known = [c.name for c in self.constants]
        for name, value in values.items():
            if name not in known:
                raise CellError(
                    f"a constant {name!r}",
                    f"one of {known}" if known else "no constant: the cell has none",
                    f"with_constants({known[0] if known else ''}=…)",
                    where=self.name,
                )
            finite(value, f"the constant {name} of {self.name}")
        return self.model_copy(
            update={
                "constants": tuple(
                    Constant(name=c.name, value=values.get(c.name, c.value)) for c in self.constants
                )
            }
        )

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
            CellError: the text is no JSON, lacks a field, or describes no valid cell.
        """
        try:
            return cls.model_validate_json(text)
        except ValueError as error:
            raise CellError(str(error), "the JSON of a cell", "cell.to_json()") from error

    def equations(self) -> tuple[str, ...]:
        """The cell in a line for each gate and state: `h'` is the new value of a state `h`.

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

    def __hash__(self) -> int:
        # Kernels are looked up by cell at every call: a text remembers its hash.
        return hash(self.text)

    # A cell is a value: a copy is itself, and it travels between processes as its JSON.

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any = None) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    # A copy with other field values must not keep facts derived from the old ones.

    def model_copy(self, *, update: Any = None, deep: bool = False) -> Self:
        """A copy, with some fields replaced and all of them checked again."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**fields, **(update or {})})
