"""Facts of a derived cell that a call needs: names, flags and numbers, and no expression."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ...cellspec.cell import CellSpec
from ...codegen.derive import Pointwise, derive
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
        sources: the states that the `dense` recurrent matrices read.
        saved: values per unit that a forward saves if it saves gates.
        biases: the gates that have a bias, which may be all that have a gradient, in order.
        sums: sums over time that a backward writes: of biases, params and diagonal weights.
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


class Called(NamedTuple):
    """Matrix of a called gate: its number and the gate's, and the place of what it multiplies.

    The place is among the values that the forward keeps.
    """

    matrix: int
    gate: int
    saved: int


class Facts(NamedTuple):
    """Names, flags and numbers of a derived cell.

    Attributes:
        saved: values that the forward keeps of a step if it keeps gates, by name.
        saved_gates: gates that the backward computes again if only states were kept.
        reads: for each state, whether the backward reads its values before or after a step.
        kept: values per unit that loops of the backward keep in local memory, at most.
        counts: of its parts.
        runs: of its matrices that multiply states, in the order of R.
        called: the matrices of called gates.
        statistics: numbers of a head that the forward keeps behind the values of its units.
    """

    saved: tuple[str, ...]
    saved_gates: tuple[str, ...]
    reads: tuple[bool, ...]
    kept: int
    counts: Counts
    runs: list[Run]
    called: list[Called]
    statistics: int

    def kept_shape(self, dim: int) -> tuple[int, ...]:
        """Return the shape of what the forward of the CPU keeps of a head, a row and a step."""
        saved = len(self.saved)
        return (saved * dim + self.statistics,) if self.called or self.statistics else (saved, dim)


@lru_cache(maxsize=512)
def facts_of(cell: CellSpec) -> Facts:
    """Return the facts of a cell; from the cache folder nothing is derived for them."""

    def make() -> list[object]:
        derived = derive(cell)
        again = derive(cell, activations=False)
        kept = max(kept_values(each.backward.statements) for each in (derived, again))
        reads = list(states_read_before(derived))
        own = [_stage_facts(cell, derived)] if derived.stages is not None else []
        return [list(derived.saved), list(again.saved), reads, *own, kept]

    def read(found: Any) -> Facts:
        *lists, kept = found
        *lists, stages = lists if cell.has_stages else (*lists, [[], 0])
        saved, again, reads = map(tuple, lists)
        places, statistics = stages
        names, flags = {type(name) for name in (*saved, *again)}, [type(flag) for flag in reads]
        numbers = {type(number) for number in (*places, statistics, kept)}
        if not names <= {str} or flags != [bool] * len(cell.states) or numbers != {int}:
            raise ValueError(f"no facts of {cell.name}: {found!r}")
        counts, runs = _counted(cell, len(saved)), _runs(cell)
        called = [Called(m, g, places[i]) for m, g, i in _called(cell)]
        return Facts(saved, again, reads, kept, counts, runs, called, statistics)

    return remembered(cell.name, f"facts {cell.fingerprint}", make, read)


def _stage_facts(cell: CellSpec, derived: Pointwise) -> list[Any]:
    """Return the saved place of each called gate's argument, and the number of statistics."""
    assert derived.stages is not None
    arguments = {product.gate: product.argument for product in derived.stages.products}
    places = [derived.saved.index(arguments[gate]) for gate in cell.called]
    return [places, len(derived.stages.saved_statistics)]


def _called(cell: CellSpec) -> list[tuple[int, int, int]]:
    """Return matrix, gate and place in `cell.called` of each called gate that has a matrix."""
    layout, states = layout_of(cell), len(cell.states)
    return [
        (matrix.number, layout.dense_gates[matrix].number, source.number - states)
        for matrix, source in layout.dense_sources.items()
        if source.number >= states
    ]


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
        if state >= len(layout.states):
            continue
        own = Run(state, gate.number, index.number, 1)
        last = found[-1] if found else None
        # A called gate in between has a matrix; without an input its number is elsewhere.
        if last and own == (last.state, last.gate + last.many, last.matrix + last.many, 1):
            found[-1] = last._replace(many=last.many + 1)
        else:
            found.append(own)
    return found
