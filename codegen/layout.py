"""`Layout`: the places of a cell's gates, states and weights in a kernel's arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from ..cellspec.cell import CellSpec
from ..cellspec.expression.node import ordered
from ..cellspec.pairs import Pair
from .derive import Pointwise
from .spaces import (
    BiasIndex,
    DenseIndex,
    DiagonalIndex,
    GateIndex,
    GradientIndex,
    InputIndex,
    PairIndex,
    ParamIndex,
    RestIndex,
    SourceIndex,
    Space,
    StateIndex,
    Table,
    UnweightedIndex,
)


class Product(NamedTuple):
    """A part of d_R: a product over all steps of the gradients of some gates and a state.

    Attributes:
        of_input: whether they are the gates with an input; else the others.
        state: the number of the state.
        pairs: the number of each matrix in R that gets a part of it, and that gate's column.
        whole: whether the product is all of d_R, in the order of R.
    """

    of_input: bool
    state: int
    pairs: tuple[tuple[int, int], ...]
    whole: bool


@dataclass(frozen=True)
class Layout:
    """The index spaces of a cell, and tables from one space to another.

    Gates with an input come first, so that their gradients are one slice. The cell's inputs that no
    weight multiplies come last among the gates: each is a gate without any weight. So the gates of
    which the backward gives a gradient have the same numbers among these and among all.

    The order of sums does not depend on the order of declarations: pairs are sorted by the source's
    place among the states, then by how many operations wait for the gate. So the same cell with its
    gates, params or sources declared in another order has the same results, bit for bit. A single
    step on the CPU is an exception: a library multiplies it, in an order of its own.

    Attributes:
        gates: gate names in the kernel's order.
        input_gates: names of the gates with an input, which come first, in the cell's order.
        gradients: names of the gates, then of those of the cell's inputs that have a gradient.
        rest_gates: of these, those without an input.
        unweighted: the gate of each of the cell's inputs.
        states: state names in the cell's order.
        params: param names in the cell's order.
        bias: the gate of each bias.
        dense_gates: the gate of each dense matrix.
        dense_sources: the state of each dense matrix; that of a called gate has a number behind all
            states, by its place in `cell.called`.
        diagonal_gates: the gate of each diagonal weight.
        diagonal_sources: the state of each diagonal weight, likewise.
        diagonal_order: the diagonal weights in the order of their sum.
        sources: the states that dense matrices read, each once.
        source_pairs: the number of dense pairs (gate, source) of each source.
        source_first_pair: the first pair of each source, in the order of products.
        pair_gates: the gate of each pair, in the order of products.
        pair_matrices: the dense matrix of each pair, in the order of products.
    """

    gates: Space[GateIndex]
    input_gates: Space[InputIndex]
    gradients: Space[GradientIndex]
    rest_gates: Space[RestIndex]
    unweighted: Table[UnweightedIndex, GateIndex]
    states: Space[StateIndex]
    params: Space[ParamIndex]
    bias: Table[BiasIndex, GateIndex]
    dense_gates: Table[DenseIndex, GateIndex]
    dense_sources: Table[DenseIndex, StateIndex]
    diagonal_gates: Table[DiagonalIndex, GateIndex]
    diagonal_sources: Table[DiagonalIndex, StateIndex]
    diagonal_order: tuple[DiagonalIndex, ...]
    sources: Table[SourceIndex, StateIndex]
    source_pairs: Table[SourceIndex, int]
    source_first_pair: Table[SourceIndex, int]
    pair_gates: Table[PairIndex, GateIndex]
    pair_matrices: Table[PairIndex, DenseIndex]

    def matrices_of(self, source: SourceIndex) -> tuple[DenseIndex, ...]:
        """The dense matrices of a source, in the order of products."""
        first = self.source_first_pair[source]
        return self.pair_matrices.values[first : first + self.source_pairs[source]]

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """The products over all steps that give d_R."""
        with_input = self._products(True, self.input_gates)
        return (*with_input, *self._products(False, self.rest_gates))

    def _products(
        self, of_input: bool, gates: Space[InputIndex] | Space[RestIndex]
    ) -> Iterator[Product]:
        named = {matrix: self.gates[gate] for matrix, gate in self.dense_gates.items()}
        for source in self.sources:
            pairs = tuple(
                (matrix.number, gates.at(named[matrix]).number)
                for matrix, state in self.dense_sources.items()
                if state == source and named[matrix] in gates
            )
            whole = tuple(named.values()) == gates.names and len(pairs) == len(named)
            if pairs:
                yield Product(of_input, source.number, pairs, whole)


@lru_cache(maxsize=512)
def layout_of(cell: CellSpec) -> Layout:
    """The layout of a cell's kernels."""
    unweighted = tuple(i.name for i in cell.inputs)
    own = tuple(g.name for g in cell.gates if not g.input)
    gates = Space(GateIndex, cell.input_gates + own + unweighted)
    rest = (*own, *(i.name for i in cell.inputs if i.has_gradient))
    states = Space(StateIndex, tuple(s.name for s in cell.states))
    dense = Space(DenseIndex, tuple(map(_name, cell.dense_pairs)))
    diagonal = Space(DiagonalIndex, tuple(map(_name, cell.diagonal_pairs)))
    dense_gates = Table(dense, tuple(gates.at(p.gate) for p in cell.dense_pairs))
    dense_sources = Table(dense, tuple(_source(cell, p) for p in cell.dense_pairs))

    products = tuple(dense.at(_name(p)) for p in in_order_of_sums(cell, cell.dense_pairs))
    pairs = Space(PairIndex, tuple(dense[m] for m in products))
    read = [s for s in states if s in dense_sources.values]
    sources = Space(SourceIndex, tuple(states[s] for s in read))
    counts = [dense_sources.values.count(s) for s in read]
    return Layout(
        gates=gates,
        input_gates=Space(InputIndex, cell.input_gates),
        gradients=Space(GradientIndex, cell.input_gates + rest),
        rest_gates=Space(RestIndex, rest),
        unweighted=Table(Space(UnweightedIndex, unweighted), tuple(map(gates.at, unweighted))),
        states=states,
        params=Space(ParamIndex, tuple(p.name for p in cell.params)),
        bias=Table(Space(BiasIndex, cell.bias_gates), tuple(map(gates.at, cell.bias_gates))),
        dense_gates=dense_gates,
        dense_sources=dense_sources,
        diagonal_gates=Table(diagonal, tuple(gates.at(p.gate) for p in cell.diagonal_pairs)),
        diagonal_sources=Table(diagonal, tuple(_source(cell, p) for p in cell.diagonal_pairs)),
        diagonal_order=tuple(
            diagonal.at(_name(p)) for p in in_order_of_sums(cell, cell.diagonal_pairs)
        ),
        sources=Table(sources, tuple(read)),
        source_pairs=Table(sources, tuple(counts)),
        source_first_pair=Table(sources, tuple(sum(counts[:i]) for i in range(len(counts)))),
        pair_gates=Table(pairs, tuple(dense_gates[m] for m in products)),
        pair_matrices=Table(pairs, products),
    )


def in_order_of_sums(cell: CellSpec, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs that states feed, in the order in which their products are added."""
    states, by_need = [state.name for state in cell.states], _by_need(cell)
    fed = [pair for pair in pairs if pair.gate not in cell.called]
    return sorted(fed, key=lambda p: (states.index(p.source), by_need.index(p.gate)))


def _source(cell: CellSpec, pair: Pair) -> StateIndex:
    """The state that feeds a pair, or the number of a called gate's argument behind the states."""
    if pair.gate in cell.called:
        return StateIndex(len(cell.states) + cell.called.index(pair.gate))
    return StateIndex([state.name for state in cell.states].index(pair.source))


def _name(pair: Pair) -> str:
    return f"{pair.gate} from {pair.source}"


def _by_need(cell: CellSpec) -> list[str]:
    """Gate names, first the gates for which the most operations wait.

    Gates are sorted by their direct users, then by the longest chain of users, then by last use,
    because a thread continues with the sums that it computes first.
    """
    nodes = ordered(cell.updates)
    users, chain = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    for node in reversed(nodes):
        for argument in node.args:
            users[argument] += 1
            chain[argument] = max(chain[argument], chain[node] + 1)
    names = {g.name for g in cell.gates}
    used = [node for node in reversed(nodes) if node.is_symbol and node.name in names]
    used.sort(key=lambda node: (-users[node], -chain[node]))
    return [*(node.name for node in used), *sorted(names.difference(n.name for n in used))]


def states_read_before(pointwise: Pointwise) -> tuple[bool, ...]:
    """For each state, whether the backward reads its value before or after a step."""
    layout = layout_of(pointwise.cell)
    read = {r.removesuffix("_next") for r in pointwise.reads}
    return tuple(
        layout.states[s] in read or s in layout.diagonal_sources.values for s in layout.states
    )
