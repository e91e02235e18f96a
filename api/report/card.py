"""The card of a cell: its signature, parameters, and bytes and operations per step and unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..cellspec.cell import CellSpec
from ..cellspec.noise.mean import notes_on_draws
from ..cellspec.stages.words import notes_on_exchanges
from ..codegen.derive import derive
from ..codegen.layout import layout_of
from ..codegen.shape import Shape


class Size(NamedTuple):
    """The parameters of a cell of one size.

    Attributes:
        label: heads and head dim.
        recurrent: elements of R and of the diagonal weights.
        inputs: elements of W, of as many input features as units.
        others: elements of biases and params.
    """

    label: str
    recurrent: int
    inputs: int
    others: int

    @property
    def total(self) -> int:
        """All elements."""
        return self.recurrent + self.inputs + self.others


class PerUnit(NamedTuple):
    """Work of one direction per step, batch row and unit.

    Attributes:
        direction: forward or backward.
        operations: arithmetic operations and function calls of the equations.
        product: floating-point operations of the product with R.
        reads: bytes that it reads from the device's memory.
        writes: bytes that it writes to the device's memory.
    """

    direction: str
    operations: int
    product: int
    reads: int
    writes: int


@dataclass(frozen=True)
class Card:
    """Facts of a cell and a shape.

    Attributes:
        name: of the cell.
        doc: its docstring, whose first line names the paper.
        signature: its function's first line.
        fingerprint: the digest of all that results depend on.
        notes: constants, values that states and params start from, the kind of recurrence, and the
            exchanges of a step.
        kept: the values that the forward saves for the backward besides the states.
        reads: the states that the backward reads.
        drawn: the inputs that the call draws for each step, and keeps for the backward.
        kept_bytes: bytes that the forward leaves for the backward, and what the call drew for it,
            per step, batch row and unit.
        sizes: parameters by size.
        work: per direction.
    """

    name: str
    doc: str
    signature: str
    fingerprint: str
    notes: tuple[str, ...]
    kept: tuple[str, ...]
    reads: tuple[str, ...]
    drawn: tuple[str, ...]
    kept_bytes: int
    sizes: tuple[Size, ...]
    work: tuple[PerUnit, ...]

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The docstring without its line breaks, paragraph by paragraph."""
        return tuple(" ".join(part.split()) for part in self.doc.split("\n\n") if part.strip())

    @classmethod
    def of(cls, cell: CellSpec, shape: Shape) -> Card:
        """The card of a cell.

        Args:
            cell: the cell.
            shape: sizes and dtype.
        """
        pointwise = derive(cell)
        others = [(shape.heads, shape.head_dim), (1, 256), (1, 1024)]
        return cls(
            name=cell.name,
            doc=cell.doc,
            signature=_signature(cell),
            fingerprint=cell.fingerprint,
            notes=tuple(_notes(cell)),
            kept=pointwise.saved,
            reads=pointwise.reads,
            drawn=pointwise.drawn,
            kept_bytes=pointwise.kept_numbers * shape.element_bytes,
            sizes=tuple(_size(cell, *size) for size in dict.fromkeys(others)),
            work=_work(cell, shape),
        )


def _work(cell: CellSpec, shape: Shape) -> tuple[PerUnit, ...]:
    pointwise, one = derive(cell), shape.element_bytes
    product = 2 * len(cell.dense_pairs) * shape.head_dim
    given = (len(cell.input_gates) + len(cell.inputs)) * one
    states, saved = len(cell.states) * one, len(pointwise.saved) * one
    read = (len(pointwise.reads) + len(cell.inputs)) * one  # inputs are read again
    # The gradient of the output comes in; those of gates and of inputs that have one go out.
    gradients = len(layout_of(cell).gradients) * one
    forward, backward = pointwise.forward.operations, pointwise.backward.operations
    return (
        PerUnit("forward", forward, product, given, states + saved),
        PerUnit("backward", backward, product, saved + read + one, gradients),
    )


def _signature(cell: CellSpec) -> str:
    kinds = (
        ("Gate", cell.gates),
        ("State", cell.states),
        ("Input", cell.inputs),
        ("Param", cell.params),
        ("Constant", cell.constants),
    )
    words = [f"{d.name}: {kind}" for kind, declared in kinds for d in declared]
    return f"{cell.name}({', '.join(words)})"


def _notes(cell: CellSpec) -> list[str]:
    return [
        *(f"{c.name} = {c.value:g}" for c in cell.constants),
        *(
            f"{i.name} is an input of each step that no weight multiplies"
            for i in cell.inputs
            if i.name not in cell.drawn
        ),
        *notes_on_draws(cell),
        *(
            f"{p.name} is learned, one value per unit, and starts at {p.init:g}"
            for p in cell.params
        ),
        *(f"{s.name} starts at {s.init:g}" for s in cell.states if s.init),
        f"recurrence: {cell.recurrence}",
        *notes_on_exchanges(cell),
    ]


def _size(cell: CellSpec, heads: int, head_dim: int) -> Size:
    units = heads * head_dim
    recurrent = units * (len(cell.dense_pairs) * head_dim + len(cell.diagonal_pairs))
    others = units * (len(cell.bias_gates) + len(cell.params))
    return Size(f"{heads} × {head_dim}", recurrent, len(cell.input_gates) * units * units, others)
