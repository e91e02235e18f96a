"""Number of values of a program that are in use at once: its registers must hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..cellspec.expression.node import Node
from .program import AnyStatement, Program, Statement, symbols_of


def live_values(program: Program) -> int:
    """The largest number of values that are in use at once.

    Inputs count from the first statement to their last use, results from their assignment to the
    end. Carried values of a loop, and all that its passes read, count during the whole loop.

    Args:
        program: of one unit.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> from rnnc.codegen.live import live_values
        >>> live_values(derive(rnnc.cells.elman).forward)
        1
    """
    most, _ = _live(program.statements, set(program.outputs), set(program.inputs))
    return most


def _live(
    statements: Sequence[AnyStatement], after: set[Node], known: set[Node]
) -> tuple[int, set[Node]]:
    """The largest number of live values, and the values that are live before the statements.

    Args:
        statements: in order.
        after: what is live after them.
        known: the names that are variables at all; constants are not.
    """
    for statement in statements:
        known |= {statement.target} if isinstance(statement, Statement) else {*statement.targets}
    live, most = set(after), len(after)
    for statement in reversed(statements):
        if isinstance(statement, Statement):
            live = (live - {statement.target}) | _read([statement.value], known)
        else:
            # What a pass reads must outlast all passes.
            targets = set(statement.targets)
            new = _read(statement.new, known)
            _, read = _live(statement.statements, new, {*known})
            kept = live | targets | (read & known)
            inside, _ = _live(statement.statements, kept | new, {*known})
            most = max(most, inside)
            live = (kept - targets) | _read(statement.starts, known)
        most = max(most, len(live))
    return most, live


def _read(values: Iterable[Node], known: set[Node]) -> set[Node]:
    return symbols_of(values) & known
