"""`Program`: statements over real numbers, made by `derive` and emitted as C++."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..cellspec.expression.lines import assigned, listed
from ..cellspec.expression.node import Node, ordered
from ..cellspec.expression.text import to_text

#: The most bytes per thread in which a loop keeps the carried values of every pass, in float32.
_MOST_KEPT = 2048


@dataclass(frozen=True)
class Statement:
    """An assignment `target = value`; each target is assigned once.

    Attributes:
        target: the name of the value.
        value: what it is computed from.
        terms: the nodes of the cell's equations that it came from: those that it computes or
            differentiates, and those whose name it reads, such as `sigmoid_f`.
    """

    target: Node
    value: Node
    terms: tuple[Node, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.target} = {to_text(self.value)}"


@dataclass(frozen=True)
class Loop:
    """Statements that run several times, each time with new carried values.

    Attributes:
        passes: how often they run.
        targets: the names of the carried values, also after the last pass.
        starts: the carried values before the first pass.
        statements: of one pass.
        new: the carried values after the pass, as names or numbers. They change together.
        keeps: whether it keeps the carried values before the passes, for an `Unwinding`.
    """

    passes: int
    targets: tuple[Node, ...]
    starts: tuple[Node, ...]
    statements: tuple[AnyStatement, ...]
    new: tuple[Node, ...]
    keeps: bool = False

    @property
    def every(self) -> int:
        """Of how many passes it keeps one: of each, or of as few as take the least memory."""
        small = 4 * self.passes * len(self.targets) <= _MOST_KEPT
        return 1 if small else math.isqrt(self.passes - 1) + 1


@dataclass(frozen=True)
class Unwinding:
    """The passes of a loop backwards, each with the carried values that the loop kept.

    Attributes:
        loop: the loop.
        targets: the names of the cotangents and sums that it carries itself.
        starts: these values before its first pass, which is the loop's last.
        statements: of one pass. They read the loop's carried values before that pass.
        new: the cotangents and sums after the pass, as names or numbers. They change together.
    """

    loop: Loop
    targets: tuple[Node, ...]
    starts: tuple[Node, ...]
    statements: tuple[AnyStatement, ...]
    new: tuple[Node, ...]

    @property
    def passes(self) -> int:
        """Number of times that the statements run."""
        return self.loop.passes


AnyStatement = Statement | Loop | Unwinding


@dataclass(frozen=True)
class Program:
    """Statements in an order in which they can run.

    Attributes:
        inputs: the symbols that the statements read.
        statements: temporaries and outputs.
        outputs: the targets that are results, in the caller's order.
        named_after: the terms of the equations that names such as `sigmoid_f` show.
    """

    inputs: tuple[Node, ...]
    statements: tuple[AnyStatement, ...]
    outputs: tuple[Node, ...]
    named_after: Mapping[str, tuple[Node, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def operations(self) -> int:
        """The number of arithmetic operations and function calls per unit."""
        return _operations(self.statements)

    @property
    def has_loops(self) -> bool:
        """True if some statements run several times."""
        return not all(isinstance(statement, Statement) for statement in self.statements)

    def reach(self) -> dict[str, set[str]]:
        """The names of the inputs that each output depends on."""
        found: dict[Node, set[Node]] = {i: {i} for i in self.inputs}
        _reach(self.statements, found)
        return {str(o): {str(i) for i in found.get(o, set())} for o in self.outputs}

    def lines(self) -> tuple[str, ...]:
        """The program as text; the statements of a loop are indented."""
        return tuple(text for text, _ in lines_of(self.statements))

    def __str__(self) -> str:
        return "\n".join(self.lines())


def lines_of(
    statements: Iterable[AnyStatement], depth: int = 1
) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """Statements as lines of text, each with the terms of the equations that it came from.

    Args:
        statements: in order.
        depth: by which somebody else indents the lines.
    """
    for statement in statements:
        if isinstance(statement, Statement):
            yield str(statement), statement.terms
            continue
        pairs = zip(statement.targets, statement.starts, strict=True)
        starts = [f"{target} = {to_text(start)}" for target, start in pairs]
        if isinstance(statement, Loop):
            heads = listed(f"repeat {statement.passes} times, from ", starts, ":", depth)
        else:
            kept = [*map(str, statement.loop.targets)]
            kept[-1] += f", from {starts[0]}"
            before = "backwards through the passes with their "
            heads = listed(before, [*kept, *starts[1:]], ":", depth)
        yield from ((line, ()) for line in heads)
        for text, terms in lines_of(statement.statements, depth + 1):
            yield f"  {text}", terms
        for line in assigned(map(str, statement.targets), map(str, statement.new), depth + 1):
            yield f"  {line}", ()


def assignments(statements: Iterable[AnyStatement]) -> Iterator[Statement]:
    """All assignments, also those in loops."""
    for statement in statements:
        if isinstance(statement, Statement):
            yield statement
        else:
            yield from assignments(statement.statements)


def values_of(statements: Iterable[AnyStatement]) -> Iterator[Node]:
    """All values that statements compute or copy, also in loops."""
    for statement in statements:
        if isinstance(statement, Statement):
            yield statement.value
        else:
            yield from (*statement.starts, *statement.new)
            yield from values_of(statement.statements)


def targets_of(statements: Iterable[AnyStatement]) -> Iterator[Node]:
    """All names that statements assign, also in loops."""
    for statement in statements:
        if isinstance(statement, Statement):
            yield statement.target
        else:
            yield from statement.targets
            yield from targets_of(statement.statements)


def _operations(statements: Iterable[AnyStatement]) -> int:
    total = 0
    for statement in statements:
        if isinstance(statement, Statement):
            total += count_operations(statement.value)
            continue
        inside = _operations(statement.statements)
        if isinstance(statement, Unwinding) and statement.loop.every > 1:
            inside += _operations(statement.loop.statements)
        total += statement.passes * inside + sum(map(count_operations, statement.starts))
    return total


def _reach(statements: Iterable[AnyStatement], found: dict[Node, set[Node]]) -> None:
    """Add the inputs that each target depends on."""

    def inputs_of(values: Iterable[Node]) -> set[Node]:
        return set().union(*(found.get(s, set()) for s in symbols_of(values)))

    for statement in statements:
        if isinstance(statement, Statement):
            found[statement.target] = inputs_of([statement.value])
            continue
        # A pass may move a value from one carried value to the next.
        for target, start in zip(statement.targets, statement.starts, strict=True):
            found[target] = inputs_of([start])
        for _ in statement.targets:
            _reach(statement.statements, found)
            for target, new in zip(statement.targets, statement.new, strict=True):
                found[target] = found[target] | inputs_of([new])


def count_operations(value: Node) -> int:
    """The number of operations of an expression in C++; a power n has n - 1 products."""
    total = 0
    pending = [value]
    while pending:
        node = pending.pop()
        pending.extend(node.args)
        if node.op == "**":
            assert isinstance(node.value, int)
            total += abs(node.value) - 1 + (node.value < 0)
        elif not node.is_leaf:
            total += 1
    return total


def symbols_of(values: Iterable[Node]) -> set[Node]:
    """All symbols that the expressions use."""
    return {node for node in ordered(values) if node.is_symbol}
