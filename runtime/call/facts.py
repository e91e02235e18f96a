"""Facts of a derived cell that a call needs: names, flags and numbers, and no expression."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ...cellspec.cell import CellSpec
from ...codegen.derive import derive
from ...codegen.layout import layout_of, states_read_before
from ...codegen.parts import kept_values
from ...codegen.spaces import numbers
from ..store.memo import remembered


class Counts(NamedTuple):
    """Numbers of parts of each kind that a cell has.

    Attributes:
        inputs: gates with an input.
        gradients: gates, and inputs of the cell, of which the backward gives the gradient.
        unweighted: the last of all gates, which are inputs of the cell.
        dense: recurrent matrices.
        sources: the numbers of the states that recurrent matrices read.
        saved: values per unit that a forward saves if it saves gates.
        biases: the numbers of the gates that have a bias.
        biases_of_all: whether these are all that have a gradient, in order.
        sums: numbers of sums over time that a backward writes: of biases, params and diagonal
            weights.
    """

    states: int
    inputs: int
    gates: int
    gradients: int
    unweighted: int
    params: int
    dense: int
    diagonal: int
    sources: frozenset[int]
    saved: int
    biases: list[int]
    biases_of_all: bool
    sums: list[int]


class Run(NamedTuple):
    """Consecutive matrices of R that belong to consecutive gates and read one state."""

    state: int
    gate: int
    matrix: int
    many: int


class Facts(NamedTuple):
    """Names, flags and numbers of a derived cell.

    Attributes:
        saved: values that the forward keeps of a step if it keeps gates, by name.
        saved_gates: gates that the backward computes again if only states were kept.
        reads: for each state, whether the backward reads its values before or after a step.
        kept: values per unit that loops of the backward keep in local memory, at most.
        counts: of its parts.
        runs: of its matrices, in the order of R.
    """

    saved: tuple[str, ...]
    saved_gates: tuple[str, ...]
    reads: tuple[bool, ...]
    kept: int
    counts: Counts
    runs: list[Run]


@lru_cache(maxsize=512)
def facts_of(cell: CellSpec) -> Facts:
    """Return the facts of a cell; from the cache folder nothing is derived for them."""

    def make() -> list[object]:
        derived = derive(cell)
        again = derive(cell, activations=False)
        kept = max(kept_values(each.backward.statements) for each in (derived, again))
        reads = list(states_read_before(derived))
        return [list(derived.saved), list(again.saved), reads, kept]

    def read(found: Any) -> Facts:
        *lists, kept = found
        saved, again, reads = map(tuple, lists)
        names, flags = {type(name) for name in (*saved, *again)}, [type(flag) for flag in reads]
        if not names <= {str} or flags != [bool] * len(cell.states) or type(kept) is not int:
            raise ValueError(f"no facts of {cell.name}: {found!r}")
        return Facts(saved, again, reads, kept, _counted(cell, len(saved)), _runs(cell))

    return remembered(cell.name, f"facts {cell.fingerprint}", make, read)


def _counted(cell: CellSpec, saved: int) -> Counts:
    """Return the counts of a cell, whose forward saves so many values."""
    layout = layout_of(cell)
    params, diagonal = len(layout.params), len(layout.diagonal_gates)
    return Counts(
        len(layout.states),
        len(layout.input_gates),
        len(layout.gates),
        len(layout.gradients),
        len(layout.unweighted),
        params,
        len(layout.dense_gates),
        diagonal,
        frozenset(numbers(layout.dense_sources)),
        saved,
        biases=numbers(layout.bias),
        biases_of_all=numbers(layout.bias) == list(range(len(layout.gradients))),
        sums=[len(layout.bias), params, diagonal],
    )


def _runs(cell: CellSpec) -> list[Run]:
    layout, found = layout_of(cell), list[Run]()
    for index, gate in layout.dense_gates.items():
        state = layout.dense_sources[index].number
        last = found[-1] if found else None
        if last and (state, gate.number) == (last.state, last.gate + last.many):
            found[-1] = last._replace(many=last.many + 1)
        else:
            found.append(Run(state, gate.number, index.number, 1))
    return found
