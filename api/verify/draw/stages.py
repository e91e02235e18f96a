"""Draws stages in a cell's body: gates that are called, and reductions over units."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .grammar import Grammar
from .tree import CellDraw, Node, call, name, number

_REDUCTIONS = ("mean", "total", "largest", "softmax", "layer_norm", "rms_norm")
#: Names of gates that a cell cannot call, since they hide a function of the language.
_FUNCTIONS = ("floor", "round", "mish")


def with_stages(random: Random, cell: CellDraw, apart: bool, half: bool) -> CellDraw:
    """The cell with calls in place of some of its gates, and reductions of some of its values.

    Args:
        random: the source of all choices.
        cell: without stages.
        apart: whether the operands of comparisons are kept apart.
        half: whether numbers must stay in the range of float16.
    """
    known = [
        g for g in cell.gates if g.recurrent and not (g.source or g.switch or g.name in _FUNCTIONS)
    ]
    called = random.sample(known, min(len(known), random.choice([0, 1, 1, 2])))
    names = {gate.name: f"called_{gate.name}" for gate in called}
    free = [d.name for d in cell.declared if d not in called]
    varies = [g.name for g in cell.input_gates if g not in called and not g.switch]
    varies += [s.name for s in cell.states]
    switches = [d.name for d in cell.declared if d.switch]
    body = []
    for gate in called:
        grammar = Grammar(random, free, switches, apart, half)
        argument = _varying(random, grammar.bounded(random.choice([1, 2])), varies)
        body.append((names[gate.name], Node("gate", (argument,), name=gate.name)))
        free.append(names[gate.name])
    for target, value in cell.body:
        new = _renamed(value, names)
        if random.random() < (0.3 if called else 0.6):
            new = _reduced(random, new, varies)
        body.append((target, new))
    return replace(cell, body=tuple(body))


def _varying(random: Random, value: Node, varies: list[str]) -> Node:
    """A value that differs from unit to unit."""
    return call("+", value, call("*", number(0.5), name(random.choice(varies))))


def _reduced(random: Random, value: Node, varies: list[str]) -> Node:
    """A value from a reduction of another one, beside a share of what it was."""
    bounded = call("tanh", value)
    function = random.choice(_REDUCTIONS)
    found = call(function, _varying(random, bounded, varies))
    size = number(0.05 if function == "total" else 0.5)
    return call("+", call("*", size, found), call("*", number(0.25), bounded))


def _renamed(node: Node, names: dict[str, str]) -> Node:
    if node.op == "name":
        return name(names.get(node.name, node.name))
    return replace(node, args=tuple(_renamed(argument, names) for argument in node.args))
