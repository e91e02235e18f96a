"""What ConstrINT says when something is wrong, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import DiagnosticError

if TYPE_CHECKING:
    from .solution import Solution
    from .solver.explain import Explanation


class ConstrintError(Exception):
    """The base of every error that ConstrINT raises on purpose."""


class ModelError(ConstrintError, DiagnosticError):
    """A mistake in a model: says where it is, what was found and what to write."""


class UnknownVariableError(ModelError, KeyError, AttributeError):
    """A name that is no variable of this model or solution.

    Also a `KeyError` and an `AttributeError`, so that `in`, `get`, `hasattr` and `copy` behave.
    """


class TextError(ModelError):
    """A mistake in a model written as text; the message points at its column."""

    def __init__(
        self, line: int, column: int, source: str, found: str, wanted: str, write: str
    ) -> None:
        super().__init__(f"line {line}, column {column}", found, wanted, write)
        self.line = line
        self.column = column
        self.source = source

    def __str__(self) -> str:
        # Tabs are kept, so that the caret stands below its column in any editor.
        margin = "".join("\t" if c == "\t" else " " for c in self.source[: self.column - 1])
        return f"{self.where}\n    {self.source}\n    {margin}^\n{self.details}"


class Unsatisfiable(ConstrintError):  # noqa: N818 - it names the answer, not a mistake
    """No values satisfy the constraints; nobody is at fault but the numbers.

    The clash is worked out when it is first asked for, so that a caller that only tries the next
    problem does not pay for it.

    Attributes:
        explanation: why nothing fits, in words.
        core: the names of constraints that clash; dropping any one of them leaves a solution,
            unless `explanation.minimal` is false because a limit stopped the work.
    """

    def __init__(self, explain: Callable[[], Explanation]) -> None:
        super().__init__(explain)
        self._explain = explain

    @cached_property
    def explanation(self) -> Explanation:
        """Why nothing fits."""
        return self._explain()

    @property
    def core(self) -> tuple[str, ...]:
        """The names of the constraints that clash."""
        return self.explanation.core

    def __str__(self) -> str:
        return str(self.explanation)


class LimitReached(ConstrintError):  # noqa: N818 - it names the event, not a mistake
    """The caller's limit on time or nodes ended the search before it was decided.

    It never means "unsatisfiable". What was known by then is kept.

    Attributes:
        nodes: decisions taken.
        seconds: time spent.
        found: how many solutions were seen, all of them valid.
        best: the best or last solution seen, or None.
        bounds: for each variable the values that were left after propagation, in words.
    """

    def __init__(
        self,
        nodes: int,
        seconds: float,
        bounds: Sequence[str] = (),
        found: int = 0,
        best: Solution | None = None,
    ) -> None:
        super().__init__(nodes, seconds, bounds, found, best)
        self.nodes = nodes
        self.seconds = seconds
        self.bounds = tuple(bounds)
        self.found = found
        self.best = best

    def __str__(self) -> str:
        seen = f"{self.found} solution{'' if self.found == 1 else 's'} seen"
        if self.best is not None:
            seen += f", the one kept: {self.best}"
        lines = [
            f"stopped undecided after {self.nodes} nodes and {self.seconds:.3f} s; {seen}",
            "  left after propagation: " + ("; ".join(self.bounds) or "not worked out yet"),
            "  write:  a larger seconds= or nodes=, or tighter domains",
        ]
        return "\n".join(lines)
