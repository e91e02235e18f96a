"""C++ functions of the stages of a cell, and what a template writes around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..derive import Pointwise
from ..emit import spelled
from ..emit_function import emit_lines
from ..hoisting import hoisted
from ..layout import Layout, layout_of
from ..pointwise_functions import PointwiseFunction
from ..program import Program, symbols_of, values_of
from .exchange import Exchanged, Product, Statistic
from .programs import Stages, described


@dataclass(frozen=True)
class StageFunction(PointwiseFunction):
    """A function of one stage.

    Attributes:
        name: of the function.
        program: what it computes.
    """

    name: str
    program: Program


class ProductPlace(NamedTuple):
    """A product with the weights of a called gate, by places.

    Attributes:
        stage: before which it is made.
        matrix: the number of its matrix, or of its diagonal weight.
        gate: the number of the gate.
        value: the number of the value that it reads, or of the backward that it gives.
        kept: the place of the forward's value among what is saved.
        dense: whether its weights are a matrix.
        text: it in words.
    """

    stage: int
    matrix: int
    gate: int
    value: int
    kept: int
    dense: bool
    text: str


class StatisticPlace(NamedTuple):
    """Numbers of a head, by places.

    Attributes:
        stage: before which they are computed.
        kind: of the statistic.
        first: the place of its first value in the list of all values.
        values: the numbers of the values.
        to: the place of the first number.
        text: it in words.
    """

    stage: int
    kind: str
    first: int
    values: list[int]
    to: int
    text: str


@dataclass(frozen=True)
class StageFunctions:
    """Text that the template of stages writes.

    Attributes:
        forward: the function of each stage of the forward.
        backward: the same of the backward.
        products: of the forward.
        statistics: of the forward.
        returned_products: of the backward.
        returned_statistics: of the backward.
        values: the names of the forward's values of a unit.
        d_values: those of the backward.
        saved_statistics: the numbers of the forward's statistics that are saved.
        counts: of constants of the source, by name.
        layout: of the cell.
        stages: the programs.
    """

    forward: tuple[StageFunction, ...]
    backward: tuple[StageFunction, ...]
    products: tuple[ProductPlace, ...]
    statistics: tuple[StatisticPlace, ...]
    returned_products: tuple[ProductPlace, ...]
    returned_statistics: tuple[StatisticPlace, ...]
    values: tuple[str, ...]
    d_values: tuple[str, ...]
    saved_statistics: tuple[int, ...]
    counts: Mapping[str, int]
    layout: Layout
    stages: Stages

    def kept(self, name: str) -> str:
        """Return what the last stage of the forward saves under a name."""
        if name in self.forward[-1].results:
            return spelled(name)
        if name in self.values:
            return f"values[{self.values.index(name)} * width + d]"
        return f"gates[{self.layout.gates.at(name).number} * width + d]"

    def place_of(self, name: str) -> tuple[str, int]:
        """The array that gets a result of the backward, and the result's place in it."""
        if name in self.d_values:
            return "values", self.d_values.index(name)
        own, layout = name.removeprefix("d_"), self.layout
        if own in layout.gradients.names:
            return "d_gates", layout.gradients.at(own).number
        if own in layout.states.names:
            return "d_states", layout.states.at(own).number
        return "d_params", layout.params.at(own).number

    def stored(self, name: str) -> str:
        """The place of a result of the backward of a row, and how it gets there."""
        array, place = self.place_of(name)
        width = {"d_gates": "dim", "d_states": "state_width"}.get(array, "width")
        return f"{array}[{place} * {width} + d] {'+' if array == 'd_params' else ''}="


def stage_functions(pointwise: Pointwise, passed: tuple[str, ...] = ()) -> StageFunctions | None:
    """The functions of a cell's stages; None for a cell without.

    Args:
        pointwise: the derived programs of the cell.
        passed: functions of the table that are arguments of the forward, after its results.
    """
    stages = pointwise.stages
    if stages is None:
        return None
    layout = layout_of(pointwise.cell)
    after = tuple(f"{s}_next" for s in layout.states.names)
    saved_statistics = tuple(map(stages.statistics.index, stages.saved_statistics))
    forward = {
        "gate": layout.gates.names,
        "state": layout.states.names,
        "param": layout.params.names,
        "value": stages.values,
        "statistic": stages.statistics,
    }
    backward = {
        "saved": pointwise.saved,
        "before": layout.states.names,
        "after": after,
        "param": layout.params.names,
        "d_after": tuple(f"d_{s}" for s in after),
        "input": layout.unweighted.space.names,
        "value": stages.d_values,
        "statistic": stages.saved_statistics,
        "sum": stages.sums,
        "ahead": (),
    }
    places = _Places(pointwise, stages, layout)
    return StageFunctions(
        forward=tuple(_functions(pointwise, "forward_{}", stages.forward, forward, passed)),
        backward=tuple(_functions(pointwise, "backward_{}", stages.backward, backward, ())),
        products=tuple(places.products(stages.exchanged, stages.values)),
        statistics=tuple(places.statistics(stages.exchanged, stages.values, stages.statistics)),
        returned_products=tuple(places.products(stages.returned, stages.d_values, back=True)),
        returned_statistics=tuple(places.statistics(stages.returned, stages.d_values, stages.sums)),
        values=stages.values,
        d_values=stages.d_values,
        saved_statistics=saved_statistics,
        counts={
            "kStatePairs": len(layout.pair_matrices),
            "kStateDiagonals": len(layout.diagonal_order),
            "kForwardStages": len(stages.forward),
            "kBackwardStages": len(stages.backward),
            "kValues": len(stages.values),
            "kDValues": len(stages.d_values),
            "kStatistics": len(stages.statistics),
            "kSavedStatistics": len(saved_statistics),
            "kStageSums": len(stages.sums),
        },
        layout=layout,
        stages=stages,
    )


def without_gradients(
    pointwise: Pointwise, first: StageFunction
) -> tuple[StageFunction, StageFunction]:
    """Divide the first stage of a backward: kernels compute ahead what reads no gradient.

    Args:
        pointwise: the derived programs of the cell.
        first: the function of the stage.

    Returns:
        The function of the values that read no gradient, and that of the rest. The latter reads
        the former's results as its inputs `"ahead"`.
    """
    constants = (constant.name for constant in pointwise.cell.constants)
    known = [name for name in first.parameters if name not in first.inputs["d_after"]]
    parts = hoisted(first.program, known, constants, "_ahead")
    rest = parts.program
    read = symbols_of((*values_of(rest.statements), *rest.outputs))
    rest = replace(rest, inputs=tuple(symbol for symbol in rest.inputs if symbol in read))
    inputs = {**first.inputs, "ahead": parts.names}
    (ahead,) = _functions(pointwise, "backward_ahead", [parts.fixed], first.inputs, ())
    (later,) = _functions(pointwise, first.name, [rest], inputs, ())
    return ahead, later


def _functions(
    pointwise: Pointwise,
    named: str,
    programs: Sequence[Program],
    inputs: Mapping[str, tuple[str, ...]],
    passed: tuple[str, ...],
) -> Iterator[StageFunction]:
    every = dict.fromkeys(name for names in inputs.values() for name in names)
    for place, program in enumerate(programs):
        name, results = named.format(place), tuple(str(o) for o in program.outputs)
        read = {symbol.name for symbol in program.inputs}
        parameters = tuple(n for n in every if n in read)
        lines = emit_lines(name, program, parameters, pointwise.cell.constants, passed)
        yield StageFunction(lines, parameters, results, inputs, frozenset(read), name, program)


class _Places:
    def __init__(self, pointwise: Pointwise, stages: Stages, layout: Layout) -> None:
        self.pointwise, self.stages, self.layout = pointwise, stages, layout

    def products(
        self,
        exchanged: Sequence[Sequence[Exchanged]],
        values: tuple[str, ...],
        *,
        back: bool = False,
    ) -> Iterator[ProductPlace]:
        cell, saved = self.pointwise.cell, self.pointwise.saved
        own = {product.gate: product.argument for product in self.stages.products}
        for stage, each in enumerate(exchanged, 1):
            for product in each:
                if isinstance(product, Product):
                    pairs = cell.dense_pairs if product.dense else cell.diagonal_pairs
                    yield ProductPlace(
                        stage,
                        next(i for i, p in enumerate(pairs) if p.gate == product.gate),
                        self.layout.gates.at(product.gate).number,
                        values.index(product.argument),
                        saved.index(own[product.gate]),
                        product.dense,
                        described(product, back=back),
                    )

    @staticmethod
    def statistics(
        exchanged: Sequence[Sequence[Exchanged]], values: tuple[str, ...], names: tuple[str, ...]
    ) -> Iterator[StatisticPlace]:
        first = 0
        for stage, each in enumerate(exchanged, 1):
            for statistic in each:
                if isinstance(statistic, Statistic):
                    read = [values.index(name) for name in statistic.arguments]
                    to, text = names.index(statistic.names[0]), described(statistic)
                    yield StatisticPlace(stage, statistic.kind, first, read, to, text)
                    first += len(read)
