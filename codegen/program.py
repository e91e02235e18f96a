"""`Program`: straight-line statements over real numbers, made by `derive` and emitted as C++."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..cellspec.expression.node import Node, ordered
from ..cellspec.expression.text import to_text


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
class Program:
    """Statements in an order in which they can run.

    Attributes:
        inputs: the symbols that the statements read.
        statements: temporaries and outputs.
        outputs: the targets that are results, in the caller's order.
        named_after: the terms of the equations that names such as `sigmoid_f` show.
    """

    inputs: tuple[Node, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Node, ...]
    named_after: Mapping[str, tuple[Node, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def operations(self) -> int:
        """The number of arithmetic operations and function calls per unit."""
        return sum(count_operations(s.value) for s in self.statements)

    def reach(self) -> dict[str, set[str]]:
        """The names of the inputs that each output depends on."""
        found: dict[Node, set[Node]] = {i: {i} for i in self.inputs}
        for statement in self.statements:
            found[statement.target] = set().union(
                *(found.get(s, set()) for s in statement.value.free_symbols)
            )
        return {str(o): {str(i) for i in found.get(o, set())} for o in self.outputs}

    def __str__(self) -> str:
        return "\n".join(map(str, self.statements))


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
