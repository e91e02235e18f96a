"""Products and kept values of a step of an alternating plan, from the stages of a cell."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ....cellspec.cell import CellSpec
from ....codegen.cuda.stage_tables import stage_tables
from ....codegen.derive import derive
from ....codegen.layout import layout_of
from ....codegen.shape import Direction
from ....codegen.spaces import numbers
from ...call.facts import facts_of
from ...store.memo import remembered


class StepFacts(NamedTuple):
    """Sizes of a step, and its products.

    Attributes:
        matrices: of each source of each product of a step: first of the states, then of the called
            gates that each further kernel of the step needs.
        values: numbers of a unit that kernels of a step leave for others: what stages leave, sums
            of products in a forward, and gradients in a backward.
        numbers: of a head, likewise.
    """

    matrices: list[list[list[int]]]
    values: int
    numbers: int


@lru_cache(maxsize=512)
def step_facts(cell: CellSpec, direction: Direction) -> StepFacts:
    """Return the facts of a direction; from the cache folder nothing is derived for them."""
    if not cell.has_stages:
        layout = layout_of(cell)
        return StepFacts([[numbers(layout.matrices_of(s)) for s in layout.sources.space]], 0, 0)
    counts = facts_of(cell).counts
    more = counts.gates if direction == "forward" else counts.gradients + counts.params

    def make() -> list[Any]:
        tables = stage_tables(derive(cell), direction)
        assert tables is not None
        states = [[matrix for _, matrix in s.pairs] for s in tables.sources if s.state >= 0]
        called = [
            [[matrix for _, matrix in s.pairs] for s in tables.sources if s.stage == first]
            for first in tables.first_stages[1:]
        ]
        return [[states, *called], len(tables.values), len(tables.computed)]

    def read(found: Any) -> StepFacts:
        matrices, values, of_head = found
        flat = [m for product in matrices for source in product for m in source]
        if {type(number) for number in (*flat, values, of_head)} != {int}:
            raise ValueError(f"no facts of a step of {cell.name}: {found!r}")
        return StepFacts(matrices, values + more, of_head)

    return remembered(cell.name, f"alternating {direction} {cell.fingerprint}", make, read)
