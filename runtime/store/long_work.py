"""Warnings about work that takes long: while it runs, and where a cell's body says so ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...codegen.derive import Pointwise
from ...codegen.program import assignments
from ..process.caller import calling_line, warn, warn_once

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


PATIENCE = 10.0  # seconds


@contextmanager
def said_if_long(what: str, advice: str) -> Iterator[None]:
    """Warn once, while the work inside still runs, if it takes longer than `PATIENCE`."""
    line = calling_line()  # the timer's thread has no caller

    def say() -> None:
        warn(f"rnnc has been {what} for {PATIENCE:g} s, and goes on. {advice}", line)

    timer = threading.Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
