"""Values of a program that follow from its params alone, which a kernel computes once per unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count

from ..cellspec.expression.graph import rewritten
from ..cellspec.expression.node import Node, ordered, symbol
from .program import AnyStatement, Program, Statement, symbols_of, values_of


@dataclass(frozen=True)
class Hoisted:
    """A program in two parts.

    Attributes:
        fixed: computes the values that follow from params alone.
        program: the rest, which reads them.
    """

    fixed: Program
    program: Program

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values, in order."""
        return tuple(output.name for output in self.fixed.outputs)


def hoisted(
    program: Program, params: Iterable[str], constants: Iterable[str], named: str = "_fixed"
) -> Hoisted:
    """Take out of a program what follows from params alone, but for what stands in its loops.

    Args:
        program: the program.
        params: the names of the cell's params, or of other inputs.
        constants: the names of its numbers.
        named: how names of values begin; no name of a cell begins with `_`.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> from rnnc.codegen.hoisting import hoisted
        >>> parts = hoisted(derive(rnnc.cells.ema).forward, ["alpha"], [])
        >>> print(parts.fixed)
        sigmoid_alpha = sigmoid(alpha)
        _fixed_0 = 1 - sigmoid_alpha
        >>> print(parts.program)
        h_next = sigmoid_alpha*x + _fixed_0*h
    """
    given = {symbol(name) for name in params}
    free = {symbol(name) for name in constants}
    names = (f"{named}_{i}" for i in count())
    outputs = set(program.outputs)
    ahead: dict[Node, Node] = {}  # the name of each value
    results: dict[Node, Node] = {}  # the name of each value that is an output too
    rest: list[AnyStatement] = []
    for statement in program.statements:
        if not isinstance(statement, Statement):
            rest.append(statement)
            continue
        (value,) = rewritten([statement.value], results)
        statement = replace(statement, value=value)
        found = _largest(value, given, free)
        if found == [statement.value] and statement.target not in outputs:
            ahead.setdefault(statement.value, statement.target)
            given.add(statement.target)
            if ahead[statement.value] != statement.target:
                rest.append(replace(statement, value=ahead[statement.value]))
            continue
        for value in found:
            if value not in ahead:
                ahead[value] = symbol(next(names))
                given.add(ahead[value])
        if found == [statement.value]:
            results[statement.target] = ahead[statement.value]
        (value,) = rewritten([statement.value], {node: ahead[node] for node in found})
        rest.append(replace(statement, value=value))
    read = symbols_of(values_of(rest))
    kept = tuple(name for name in ahead.values() if name in read)
    statements = tuple(Statement(name, value) for value, name in ahead.items())
    return Hoisted(
        Program(tuple(i for i in program.inputs if i in given), statements, kept),
        replace(program, inputs=(*program.inputs, *kept), statements=tuple(rest)),
    )


def _largest(value: Node, given: set[Node], free: set[Node]) -> list[Node]:
    """The largest operations below a value that read names of `given`, and besides only `free`."""
    fixed: dict[Node, bool] = {}  # whether it reads one of `given`, for each node that may be fixed
    for node in ordered([value]):
        if node.is_symbol:
            if node in given or node in free:
                fixed[node] = node in given
        elif all(argument in fixed for argument in node.args):
            fixed[node] = any(fixed[argument] for argument in node.args)
    largest = {n for n in fixed if fixed[n] and not n.is_leaf and not n.is_condition}
    reached = ordered([value], stop=dict.fromkeys(largest))
    return [node for node in reached if node in largest]
