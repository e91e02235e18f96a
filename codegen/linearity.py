"""Test for linearity: whether a kernel may add values after the program instead of before."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..cellspec.expression.node import Node, ordered
from .program import AnyStatement, Program, Statement, Unwinding

# A value contains none of the inputs, or is linear in them, or neither.
_FREE, _LINEAR, _OTHER = range(3)


def linear(program: Program, inputs: Collection[str]) -> bool:
    """Return True if every output is linear in these inputs.

    The program's value at a sum of inputs is then the sum of its values. Only the form of the
    statements counts: a program that is linear in a hidden way is reported as not linear.

    Args:
        program: the program.
        inputs: the names of the inputs.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> from rnnc.codegen.linearity import linear
        >>> linear(derive(rnnc.cells.lstm).backward, ["d_h_next", "d_c_next"])
        True
    """
    degrees = {i: _LINEAR if i.name in inputs else _FREE for i in program.inputs}
    _add_degrees(program.statements, degrees)
    # An output that no input reaches is the number 0.
    return all(
        degrees[s.target] == _LINEAR or _is_zero(s.value)
        for s in program.statements
        if isinstance(s, Statement) and s.target in program.outputs
    )


def _add_degrees(statements: Iterable[AnyStatement], degrees: dict[Node, int]) -> None:
    """Add the degree of each target, in the order of the statements."""
    for statement in statements:
        if isinstance(statement, Statement):
            degrees[statement.target] = _degree(statement.value, degrees)
            continue
        # What runs backwards carries cotangents, and sums of them, which start at 0.
        carried = _LINEAR if isinstance(statement, Unwinding) else _FREE
        degrees.update(dict.fromkeys(statement.targets, carried))
        _add_degrees(statement.statements, degrees)
        values = (*statement.starts, *statement.new)
        if any(_degree(value, degrees) != carried and not _is_zero(value) for value in values):
            degrees.update(dict.fromkeys(statement.targets, _OTHER))


def _degree(value: Node, symbols: dict[Node, int]) -> int:
    """The degree of a value, given the degrees of its symbols."""
    degrees: dict[Node, int] = {}
    for node in ordered([value]):
        found = [degrees[a] for a in node.args]
        if node.is_symbol:
            degrees[node] = symbols.get(node, _FREE)
        elif max(found, default=_FREE) == _FREE:
            degrees[node] = _FREE
        else:
            degrees[node] = _LINEAR if _keeps_linear(node, found) else _OTHER
    return degrees[value]


def _keeps_linear(node: Node, found: list[int]) -> bool:
    """Return True if an operation is linear, given that some of its arguments are not free."""
    if node.op == "*":
        return sum(found) == _LINEAR
    if node.op in ("neg", "/"):
        return found[0] == _LINEAR and sum(found) == _LINEAR
    chooses = node.op == "call" and node.name == "where"
    if node.op in ("+", "-") or chooses:
        # 0 plus a linear value is linear.
        terms = list(zip(node.args, found, strict=True))[chooses:]
        free = not chooses or found[0] == _FREE
        return free and all(d == _LINEAR or _is_zero(a) for a, d in terms)
    return False


def _is_zero(node: Node) -> bool:
    return node.is_number and node.value == 0
