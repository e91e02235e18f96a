"""Programs of stages from the values that each computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...cellspec.cell import CellSpec
from ...cellspec.expression.graph import rewritten
from ...cellspec.expression.node import Node
from ..origins import Origins, rewritten_origins
from ..program import Program, targets_of
from ..schedule import schedule
from .lower import Lowered
from .split import split


@dataclass(frozen=True)
class Wishes:
    """Names of values, and the terms that they came from, as `schedule` takes them.

    Attributes:
        sums: preferred names of some values.
        variables: names of values in place of `t0`, `t1`, ….
        origins: the terms of the equations that nodes came from.
        first: values that are computed before others.
    """

    sums: Mapping[Node, str]
    variables: Mapping[Node, str]
    origins: Origins
    first: tuple[Node, ...] = ()

    def written_with(self, known: Mapping[Node, Node]) -> Wishes:
        """The same for a stage that reads some values by their names.

        Args:
            known: the values, and the symbols that they are read as.
        """
        return Wishes(
            _keys_rewritten(self.sums, known),
            _keys_rewritten(self.variables, known),
            rewritten_origins(self.origins, known),
            tuple(rewritten(self.first, known)),
        )


def write_stages(
    cell: CellSpec,
    low: Lowered,
    stages: Sequence[Mapping[str, Node]],
    stored: Iterable[str],
    wishes: Wishes,
) -> tuple[tuple[Program, ...], tuple[str, ...]]:
    """The program of each stage, and the names of what stages leave besides their results.

    Args:
        cell: the cell.
        low: its equations without called gates and reductions.
        stages: the results of each stage.
        stored: the names of results that later stages can read.
        wishes: names, and terms.
    """
    taken = taken_names(cell, low)
    parts = split(stages, stored, taken)
    taken |= {name for each in parts.results for name in each}
    programs: list[Program] = []
    for results, known in zip(parts.results, parts.known, strict=True):
        own = wishes.written_with(known)
        program = schedule(
            results,
            constants=[constant.name for constant in cell.constants],
            taken=taken,
            wishes=own.sums,
            variables=own.variables,
            first=[node for node in own.first if node in set(results.values())],
            origins=own.origins,
        )
        programs.append(program)
        taken |= {target.name for target in targets_of(program.statements)}
    return tuple(programs), parts.left


def taken_names(cell: CellSpec, low: Lowered) -> set[str]:
    """The names that temporaries of a program must not have."""
    names = {d.name for d in cell.declarations} | {f"{s.name}_next" for s in cell.states}
    exchanged = {name for each in low.exchanged for name in each.results}
    return names | exchanged | {*low.arguments, *low.marks}


def variables_of(cell: CellSpec, low: Lowered) -> dict[Node, str]:
    """The names of the cell's variables, by what their values became."""
    names = cell.variable_names.items()
    return {low.of[node]: name for node, name in names if node in low.of}


def _keys_rewritten(named: Mapping[Node, str], known: Mapping[Node, Node]) -> dict[Node, str]:
    return dict(zip(rewritten(named, known), named.values(), strict=True))
