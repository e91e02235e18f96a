"""Warning about a cell whose body repeats so much that its kernels take long to compile."""

from __future__ import annotations

from ...codegen.derive import Pointwise
from ...codegen.program import assignments
from ..process.caller import warn_once

#: The most statements of a pointwise program without a warning.
MOST_STATEMENTS = 2000


def tell_of_long_body(pointwise: Pointwise) -> None:
    """Warn of a cell with a long pointwise program, once in a process."""
    cell = pointwise.cell
    programs = pointwise.forward, pointwise.backward
    most = max(sum(1 for _ in assignments(program.statements)) for program in programs)
    if most > MOST_STATEMENTS:
        warn_once(
            f"{cell.name} has a pointwise program of {most} statements, which takes"
            " long to compile. A Python loop in a cell's function writes its body anew each time;"
            " rnnc.repeat(n, step, *values) writes it once"
        )
