"""Ends of a question without an answer: no solution exists, or a limit was reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from ..errors import ConstrintError
from .explanation import Explanation
from .solution import Solution


class Unsatisfiable(ConstrintError):  # noqa: N818 - it names the answer, not a mistake
    """No values satisfy the constraints.

    The explanation is computed when it is first asked for, so a caller that only tries the next
    problem does not pay for it.

    Attributes:
        explanation: why there is no solution.
        core: the names of constraints that clash. Without any one of them there is a solution,
            unless `explanation.minimal` is false because a limit stopped the work.
    """

    def __init__(self, explain: Callable[[], Explanation]) -> None:
        super().__init__(explain)
        self._explain = explain

    @cached_property
    def explanation(self) -> Explanation:
        """Why there is no solution."""
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
        bounds: for each variable, the values left after propagation, as text.
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
