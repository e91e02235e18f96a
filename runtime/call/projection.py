"""Cells whose output is projected: their recurrence runs on the state before the projection.

A projected module gives h = P h~, of fewer features than h~ has units. Its gates read R' h, and so
R h~ with R = R' P: the kernels run the same cell on h~. Only an h that did not come out of a step,
an initial one or that of a reset, has no h~. It enters the next step as R' h, added to the input.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...cellspec.cell import CellSpec
from ...cellspec.declare import Gate
from ...cellspec.expression.node import ordered
from ...errors import TensorError
from .forms import WEIGHTS

#: The name of the matrices P without the layer, as torch has it.
WEIGHT = "weight_hr"


class Projection(NamedTuple):
    """Projection of a cell's output.

    Attributes:
        size: features of h per head.
        init: the value of h before the first step, unless the caller passes one.
        recurrent: the cell on h~, which starts at zero.
        entered: the same, where each gate with a recurrent matrix takes input too.
        single: a step of it from given gates: the same without recurrent matrices.
        gates: those with a recurrent matrix, in the order of the matrices.
    """

    size: int
    init: float
    recurrent: CellSpec
    entered: CellSpec
    single: CellSpec
    gates: tuple[str, ...]

    def mean(self) -> Projection:
        """Return the same of a cell that draws nothing: see `CellSpec.mean`."""
        cells = self.recurrent.mean(), self.entered.mean(), self.single.mean()
        return Projection(self.size, self.init, *cells, self.gates)

    @property
    def adds_to_input(self) -> bool:
        """True if the gates with a recurrent matrix are those that take input, in order."""
        return self.gates == self.entered.input_gates == self.recurrent.input_gates


def projection_of(cell: CellSpec, size: Any, dim: int) -> Projection | None:
    """Return the projection of a cell with `dim` units per head; None where `size` is 0.

    `size` is the argument `proj_size`: features of h per head.

    Raises:
        TensorError: the size is no whole number from 0 to `dim` - 1, or the cell does not read its
            output through dense matrices alone.
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < dim:
        wanted = f"a whole number from 0, for none, to {dim - 1}: less than the units of a head"
        raise TensorError("proj_size", repr(size), wanted, f"proj_size={max(dim // 2, 0)}")
    if not size:
        return None
    _check_cell(cell)
    first, *others = cell.states
    states = (first.model_copy(update={"init": 0.0}), *others)
    gates = tuple(pair.gate for pair in cell.dense_pairs)
    taking = [_changed(gate, gate.name in gates, input=True) for gate in cell.gates]
    given = [_changed(g, g.name in gates, recurrent=False, source=()) for g in taking]
    return Projection(
        size,
        first.init,
        cell.model_copy(update={"states": states}),
        cell.model_copy(update={"states": states, "gates": tuple(taking)}),
        cell.model_copy(update={"states": states, "gates": tuple(given)}),
        gates,
    )


def _changed(gate: Gate, changes: bool, **fields: Any) -> Gate:
    return gate.model_copy(update=fields) if changes else gate


def _exchanged(cell: CellSpec) -> str:
    """Return what a cell exchanges in a step that no projection allows; empty for nothing."""
    output = cell.states[0].name
    for node in ordered(cell.updates):
        if node.op == "gate":
            return f"calls the gate {node.name}, whose weights multiply a value of the step"
        if node.op == "units" and output in {symbol.name for symbol in node.free_symbols}:
            return f"reads its output {output} in {node.name}(…), over the units of a head"
    return ""


def _check_cell(cell: CellSpec) -> None:
    """Check that a cell reads its output through dense matrices alone, and nothing else by them."""
    output = cell.states[0].name
    sources = [pair.source for pair in cell.dense_pairs]
    readers = [
        state.name
        for state, update in zip(cell.states, cell.updates, strict=True)
        if output in {symbol.name for symbol in update.free_symbols}
    ]
    diagonal = [pair.gate for pair in cell.diagonal_pairs if pair.source == output]
    others = [source for source in sources if source != output]
    found, exchanged = None, _exchanged(cell)
    if exchanged:
        found = exchanged
    elif readers:
        found = f"reads its output {output} in the new value of {readers[0]}"
    elif diagonal:
        found = f"multiplies its output {output} by one weight per unit, in the gate {diagonal[0]}"
    elif output not in sources:
        found = f"has no matrix that multiplies its output {output}"
    elif others:
        found = f"has matrices that multiply {others[0]} besides its output {output}"
    if found:
        raise TensorError(
            f"proj_size with {cell.name}",
            f"a cell that {found}",
            f"a cell that reads {output} through recurrent matrices alone, as an LSTM does",
            "proj_size=0, or torch.nn.Linear after the module",
        )
    if any(param.name == WEIGHT for param in cell.params):
        raise TensorError(
            f"the param {WEIGHT} of {cell.name}",
            f"the name of a weight of a projected rnnc.RNN, {WEIGHT}_l0",
            f"a name other than {', '.join((*WEIGHTS, WEIGHT))}",
            f"own_{WEIGHT}: Param",
        )
