"""The rules of called gates and reductions, for cells that are read from JSON too."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..errors import CellError
from ..expression.graph import everywhere
from ..expression.node import Node, ordered
from . import refuse
from .nodes import STAGES, eps_of, is_together, reduced
from .table import REDUCTIONS

if TYPE_CHECKING:
    from ..cell import CellSpec


def check_stages(cell: CellSpec) -> None:
    """Check the called gates and reductions of a cell.

    Raises:
        CellError: one of them breaks a rule.
    """
    nodes = ordered(cell.updates)
    for node in set(everywhere(cell.updates)).difference(nodes):
        if node.op in STAGES:
            raise refuse.in_repeat(str(node))
    gates = {gate.name: gate for gate in cell.gates}
    varying = {d.name for d in (*cell.gates, *cell.states, *cell.inputs)}
    read = {node.name for node in nodes if node.is_symbol}
    called = Counter(node.name for node in nodes if node.op == "gate")
    for node in nodes:
        if node.op == "units":
            _check_reduction(node)
        if node.op != "gate":
            continue
        if node.name not in gates:
            raise CellError(
                f"the unknown function `{node.name}`",
                "a function of rnnc's table, or a gate of the signature",
                f"{node.name}: Gate in the signature",
            )
        gate = gates[node.name]
        if gate.source:
            raise refuse.called_with_source(gate)
        if not gate.recurrent:
            raise refuse.called_without_weights(gate)
        if called[node.name] > 1:
            raise refuse.called_twice(node.name)
        if node.name in read:
            raise refuse.read_and_called(node.name)
        below = ordered(node.args)
        if not any(n.op in STAGES or (n.is_symbol and n.name in varying) for n in below):
            raise refuse.fixed_argument(node.name, str(node.args[0]))


def _check_reduction(node: Node) -> None:
    if REDUCTIONS[node.name].is_norm and eps_of(node) < 0:
        raise refuse.eps(node.name, str(eps_of(node)))
    values = reduced(node)
    if not all(any(n.is_symbol for n in ordered([value])) for value in values):
        raise refuse.numbers_alone(node.name, [*map(str, values)])


def check_value(update: Node, state: str) -> None:
    """Refuse values that are normed together as the new value of one state.

    Args:
        update: the new value.
        state: the name of the state.
    """
    if is_together(update):
        raise CellError(
            f"{update} as the new value of `{state}`, several values in the place of one",
            "one of them",
            f"{update}[0]",
        )
