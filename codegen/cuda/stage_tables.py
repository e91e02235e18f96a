"""Tables of the stages of a cell, in numbers, for the kernels of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from ...cellspec.expression.node import Node, ordered
from ..derive import Pointwise
from ..layout import Layout, layout_of
from ..program import values_of
from ..shape import Direction
from ..stages.functions import (
    ProductPlace,
    StageFunction,
    StageFunctions,
    StatisticPlace,
    stage_functions,
    without_gradients,
)


class Source(NamedTuple):
    """Factor of matrices of R: a state, or the arguments of called gates.

    Attributes:
        stage: before which a step needs the product.
        state: the number of the state; -1 for called gates.
        value: of called gates, the number of the value that a forward multiplies, or that a
            backward's product gives; -1 for a state.
        pairs: the number of each gate and of its matrix.
    """

    stage: int
    state: int
    value: int
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class StageTables:
    """The stages of one direction of a cell.

    Attributes:
        direction: which of the two.
        functions: of the cell.
        layout: of the cell.
        saved: how many values of a unit the forward saves.
        ahead: what a kernel computes before the first stage of a backward; None: nothing.
        stages: the function of each stage. The first reads what `ahead` gives.
    """

    direction: Direction
    functions: StageFunctions
    layout: Layout
    saved: int
    ahead: StageFunction | None
    stages: tuple[StageFunction, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the values of a unit that a stage leaves for others."""
        forward = self.direction == "forward"
        return self.functions.values if forward else self.functions.d_values

    @property
    def statistics(self) -> tuple[StatisticPlace, ...]:
        """The numbers of a head that units exchange."""
        forward = self.direction == "forward"
        return self.functions.statistics if forward else self.functions.returned_statistics

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the numbers of a head that the functions of the stages read."""
        forward, stages = self.direction == "forward", self.functions.stages
        return stages.statistics if forward else stages.saved_statistics

    @property
    def computed(self) -> tuple[str, ...]:
        """The names of the numbers of a head that the direction computes."""
        stages = self.functions.stages
        return stages.statistics if self.direction == "forward" else stages.sums

    @property
    def _products(self) -> tuple[ProductPlace, ...]:
        forward = self.direction == "forward"
        return self.functions.products if forward else self.functions.returned_products

    @property
    def before(self) -> tuple[list[str], ...]:
        """Lines of text that say what units exchange before each stage."""
        every: list[ProductPlace | StatisticPlace] = [*self._products, *self.statistics]
        return tuple([e.text for e in every if e.stage == n] for n in range(len(self.stages)))

    @property
    def weights(self) -> tuple[ProductPlace, ...]:
        """The products of called gates with a weight per unit."""
        return tuple(product for product in self._products if not product.dense)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """All sources: first the states, then those of called gates by their stages.

        Called gates that multiply one value share a source, in a backward those of one stage.
        """
        layout = self.layout
        after = 0 if self.direction == "forward" else len(self.stages)
        states = [
            Source(after, state.number, -1, tuple(self._pairs_of(place)))
            for place, state in enumerate(layout.sources.values)
        ]
        called: dict[tuple[int, int], list[ProductPlace]] = {}
        for product in self._products:
            if product.dense:
                called.setdefault((product.stage, product.kept), []).append(product)
        return (
            *states,
            *(
                Source(stage, -1, own[0].value, tuple((p.gate, p.matrix) for p in own))
                for (stage, _), own in sorted(called.items())
            ),
        )

    def _pairs_of(self, place: int) -> Iterator[tuple[int, int]]:
        layout = self.layout
        first = layout.source_first_pair.values[place]
        for i in range(first, first + layout.source_pairs.values[place]):
            yield layout.pair_gates.values[i].number, layout.pair_matrices.values[i].number

    @property
    def called_stages(self) -> frozenset[int]:
        """The stages that need products of called gates."""
        return frozenset(source.stage for source in self.sources if source.state < 0)

    @property
    def meetings(self) -> int:
        """Number of times that all units of a head wait for each other within a step."""
        return len(self.called_stages | {statistic.stage for statistic in self.statistics})

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The gate and the matrix of each dense pair, in the order of products."""
        return tuple(pair for source in self.sources for pair in source.pairs)

    @property
    def first_pairs(self) -> list[int]:
        """The first pair of each source."""
        counts = [len(source.pairs) for source in self.sources]
        return [sum(counts[:place]) for place in range(len(counts))]

    @property
    def value_stages(self) -> list[int]:
        """The stage that leaves each value of a unit; -1 where a product gives it."""
        of = {name: place for place, each in enumerate(self.stages) for name in each.results}
        return [of.get(name, -1) for name in self.values]

    @property
    def first_stages(self) -> tuple[int, ...]:
        """The first of the stages that follow each other without a product of a matrix."""
        return (0, *sorted(self.called_stages))

    @property
    def first_stage_waits(self) -> bool:
        """True if the first stage of a forward reads gates, and so waits for products of states."""
        return not self.stages[0].read.isdisjoint(self.layout.gates.names)

    @property
    def rsqrt_of_normals(self) -> bool:
        """True if no argument of `rsqrt` is subnormal: each is a sum with a number such as eps.

        What is close to such a number has digits of about the same place. So their sum is 0, or far
        above the subnormal numbers, even if a product and the sum are rounded at once.
        """
        functions = [*self.stages, *([self.ahead] if self.ahead else [])]
        every = ordered(value for each in functions for value in values_of(each.program.statements))
        arguments = [n.args[0] for n in every if n.op == "call" and n.name == "rsqrt"]
        return all(
            argument.op == "+" and any(_is_large(each) for each in argument.args)
            for argument in arguments
        )

    def stage_of(self, names: tuple[str, ...]) -> list[int]:
        """The stage of a backward that computes the gradient of each name."""
        of = {name: place for place, each in enumerate(self.stages) for name in each.results}
        return [of[f"d_{name}"] for name in names]


def _is_large(node: Node) -> bool:
    return node.op == "number" and isinstance(node.value, (int, float)) and node.value >= 2.0**-64


@lru_cache(maxsize=256)  # searches ask for each of their candidates
def stage_tables(
    pointwise: Pointwise,
    direction: Direction,
    passed: tuple[str, ...] = (),
    *,
    looks_ahead: bool = False,
) -> StageTables | None:
    """The stages of a direction; None for a cell without.

    Args:
        pointwise: the derived programs of the cell.
        direction: which of the two.
        passed: functions of the table that a forward gets as arguments.
        looks_ahead: whether a backward may compute ahead what its first stage reads no gradient
            for. It does so where all that units exchange within a step are statistics: beside a
            product there is no time for it.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.stage_tables import stage_tables
        >>> from rnnc.codegen.derive import derive
        >>> tables = stage_tables(derive(rnnc.cells.gru_reset_first), "forward")
        >>> [(source.stage, source.state) for source in tables.sources]
        [(0, 0), (1, -1)]
    """
    functions = stage_functions(pointwise, passed)
    if functions is None:
        return None
    layout, saved = layout_of(pointwise.cell), len(pointwise.saved)
    stages = functions.forward if direction == "forward" else functions.backward
    tables = StageTables(direction, functions, layout, saved, None, stages)
    if not looks_ahead or direction == "forward" or tables.called_stages:
        return tables
    ahead, first = without_gradients(pointwise, stages[0])
    return replace(tables, ahead=ahead, stages=(first, *stages[1:]))
