"""Cells whose output is projected: their recurrence runs on the state before the projection.

A projected module gives h = P h~, of fewer features than h~ has units. Its gates read R' h, and so
R h~ with R = R' P: the kernels run the same cell on h~. Only an h that did not come out of a step,
an initial one or that of a reset, has no h~. It enters the next step as R' h, added to the input.

Matrices that multiply anything else, another state or the argument of a called gate, stay as they
are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...cellspec.cell import CellSpec
from ...cellspec.declare import Gate
from ...cellspec.expression.node import ordered
from ...errors import TensorError
from .forms import WEIGHTS, check_params

#: The name of the matrices P without the layer, as torch has it.
WEIGHT = "weight_hr"
#: The name of the matrices that multiply something else than the output, without the layer.
OWN_WEIGHT = "weight_hs"


class Projection(NamedTuple):
    """Projection of a cell's output.

    Attributes:
        size: features of h per head.
        init: the value of h before the first step, unless the caller passes one.
        recurrent: the cell on h~, which starts at zero.
        entered: the same, where each gate with a recurrent matrix takes input too.
        single: a step of it from given gates: the same without the recurrent matrices of h.
        gates: those with a recurrent matrix of h, in the order of these matrices.
        order: of all recurrent matrices, the place of each among those of h and then the others;
            empty if all are of h.
    """

    size: int
    init: float
    recurrent: CellSpec
    entered: CellSpec
    single: CellSpec
    gates: tuple[str, ...]
    order: tuple[int, ...] = ()

    def mean(self) -> Projection:
        """Return the same of a cell that draws nothing: see `CellSpec.mean`."""
        cells = self.recurrent.mean(), self.entered.mean(), self.single.mean()
        return Projection(self.size, self.init, *cells, self.gates, self.order)

    @property
    def adds_to_input(self) -> bool:
        """True if the gates with a recurrent matrix are those that take input, in order."""
        return self.gates == self.entered.input_gates == self.recurrent.input_gates


def projection_of(cell: CellSpec, size: Any, dim: int) -> Projection | None:
    """Return the projection of a cell with `dim` units per head; None where `size` is 0.

    `size` is the argument `proj_size`: features of h per head. A `TensorError` refuses one that is
    no whole number from 0 to `dim` - 1, and a cell that reads its output in another way than
    through dense matrices.
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < dim:
        wanted = f"a whole number from 0, for none, to {dim - 1}: less than the units of a head"
        raise TensorError("proj_size", repr(size), wanted, f"proj_size={max(dim // 2, 0)}")
    if not size:
        return None
    _check_cell(cell)
    first, *others = cell.states
    states = (first.model_copy(update={"init": 0.0}), *others)
    reads = reads_output(cell)
    gates = tuple(pair.gate for pair, own in zip(cell.dense_pairs, reads, strict=True) if own)
    taking = [_changed(gate, gate.name in gates, input=True) for gate in cell.gates]
    given = [_without(gate, first.name) if gate.name in gates else gate for gate in taking]
    places = sorted(range(len(reads)), key=lambda place: not reads[place])
    return Projection(
        size,
        first.init,
        cell.model_copy(update={"states": states}),
        cell.model_copy(update={"states": states, "gates": tuple(taking)}),
        cell.model_copy(update={"states": states, "gates": tuple(given)}),
        gates,
        () if all(reads) else tuple([places.index(place) for place in range(len(reads))]),
    )


def reads_output(cell: CellSpec) -> list[bool]:
    """Return of each recurrent matrix whether it multiplies the output, the first state."""
    return [pair.source == cell.states[0].name for pair in cell.dense_pairs]


def _without(gate: Gate, source: str) -> Gate:
    """Return a gate that has no recurrent matrix of a state."""
    others = tuple(name for name in gate.source if name != source)
    return _changed(gate, True, recurrent=bool(others), source=others)


def _changed(gate: Gate, changes: bool, **fields: Any) -> Gate:
    return gate.model_copy(update=fields) if changes else gate


def _place(cell: CellSpec) -> str:
    """Return where a cell reads its output besides its recurrent matrices; empty for nowhere."""
    output = cell.states[0].name
    for node in ordered(cell.updates):
        if node.op in ("gate", "units") and output in {s.name for s in node.free_symbols}:
            if node.op == "gate":
                return f"the argument of the gate {node.name}, {node.name}(…)"
            return f"{node.name}(…), over the units of a head"
    for state, update in zip(cell.states, cell.updates, strict=True):
        if output in {symbol.name for symbol in update.free_symbols}:
            return f"the new value of {state.name}"
    return ""


def _check_cell(cell: CellSpec) -> None:
    """Check that a cell reads its output through dense matrices alone."""
    output, place, found = cell.states[0].name, _place(cell), None
    diagonal = [pair.gate for pair in cell.diagonal_pairs if pair.source == output]
    if place:
        found = f"reads its output {output} in {place}"
    elif diagonal:
        found = f"multiplies its output {output} by one weight per unit, in the gate {diagonal[0]}"
    elif not any(reads_output(cell)):
        found = f"has no matrix that multiplies its output {output}"
    if found:
        raise TensorError(
            f"proj_size with {cell.name}",
            f"a cell that {found}",
            f"a cell that reads {output} through recurrent matrices alone, as an LSTM does",
            "proj_size=0, or torch.nn.Linear after the module",
        )
    check_params(cell, (*WEIGHTS, WEIGHT, OWN_WEIGHT), "a projected rnnc.RNN")
