"""Draws loops in a cell's body: an expression becomes what a loop starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from .grammar import Grammar
from .tree import CellDraw, Node, call, name, number

_MOST_PASSES = 7


def with_loops(random: Random, cell: CellDraw, apart: bool, half: bool) -> CellDraw:
    """The cell with loops of 0 to 7 passes around some of its values, one in another at times.

    Args:
        random: the source of all choices.
        cell: without loops.
        apart: whether the operands of comparisons are kept apart.
        half: whether numbers must stay in the range of float16.
    """
    known = [d.name for d in cell.declared]
    switches = [d.name for d in cell.declared if d.switch]
    body: list[tuple[str, Node]] = []
    for target, value in cell.body:
        if random.random() < 0.5:
            grammar = Grammar(random, known, switches, apart, half)
            value = _loop(random, grammar, value, random.choice([1, 1, 2]))
        body.append((target, value))
        known.append(target)
    return replace(cell, body=tuple(body))


def _loop(random: Random, grammar: Grammar, start: Node, depth: int) -> Node:
    """A loop that carries one to three values; its result is the last one."""
    count = random.choice([1, 1, 2, 3])
    names = [f"pass{depth}_{i}" for i in range(count)]
    starts = [*(grammar.expression(1) for _ in names[1:]), start]
    outer = list(grammar.leaves)
    grammar.leaves += names * (1 + len(outer) // (2 * count))
    new = [_new(random, grammar, word) for word in names]
    if depth > 1:
        new[-1] = _loop(random, grammar, new[-1], depth - 1)
    grammar.leaves = outer
    return repeat(random.randint(0, _MOST_PASSES), names, starts, new)


def _new(random: Random, grammar: Grammar, own: str) -> Node:
    """A carried value after a pass, which reads the one before, so that errors do not grow."""
    share = call("*", number(random.choice([0.25, 0.5, -0.5])), name(own))
    return call("+", share, call("*", number(0.5), grammar.bounded(random.choice([1, 1, 2]))))


def repeat(passes: int, names: Sequence[str], starts: Sequence[Node], new: Sequence[Node]) -> Node:
    """The last result of a loop.

    Args:
        passes: how often it runs.
        names: of the carried values.
        starts: the carried values before the first pass.
        new: the carried values after a pass.
    """
    return Node("repeat", (*starts, *new), name=" ".join(names), value=passes)
