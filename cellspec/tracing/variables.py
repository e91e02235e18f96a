"""The author's variables: which name of a cell's function held which traced value.

Python does not tell a value the name that it is assigned to. But when the next value is made, the
function's frame has that name. So each new value looks at the frame. This needs no source of the
function, and leaves the hooks of debuggers alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType

from ..expression.node import Node
from ..expression.sharing import LONGEST_NAME
from .refusing import Refusing


class Variables:
    """The variables of one run of a cell's function.

    Attributes:
        found: the first variable that held each value, in the order in which they were seen.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.frame: FrameType | None = None
        self.found: dict[Node, str] = {}

    def look(self) -> None:
        """Note what the variables of the function hold now."""
        self.frame = self.frame or self._running()
        held = self.frame.f_locals if self.frame else {}
        for name, value in held.items():
            if isinstance(value, Refusing) and value.expression.args:
                self.found.setdefault(value.expression, name)

    def _running(self) -> FrameType | None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        return frame

    def names(self, declared: Collection[str], is_usable: Callable[[str], bool]) -> dict[Node, str]:
        """A name for each value, which no other value and no declaration has.

        The second value of a variable `x` is `x2`. A value has no name if that of its variable is
        declared, has a meaning of its own, or is long.

        Args:
            declared: the names of the cell's signature.
            is_usable: whether a name has no meaning of its own.
        """
        used, counts = {*declared}, dict[str, int]()
        names: dict[Node, str] = {}
        for node, variable in self.found.items():
            if not is_usable(variable) or variable in declared or len(variable) > LONGEST_NAME:
                continue
            name = variable
            while name in used or not is_usable(name):
                counts[variable] = counts.get(variable, 1) + 1
                apart = "_" if variable[-1].isdigit() or variable == "t" else ""
                name = f"{variable}{apart}{counts[variable]}"
            used.add(name)
            names[node] = name
        return names


_watched: ContextVar[Variables | None] = ContextVar("watched", default=None)


@contextmanager
def watched(code: CodeType) -> Iterator[Variables]:
    """Watch the variables of a function while it runs.

    Args:
        code: of the function.
    """
    variables = Variables(code)
    token = _watched.set(variables)
    try:
        yield variables
    finally:
        _watched.reset(token)
        variables.frame = None  # it would keep all that the function held


def look() -> None:
    """Note what the variables of the function that is watched hold now."""
    variables = _watched.get()
    if variables is not None:
        variables.look()


def running() -> str:
    """The name of the cell's function that runs now; empty where none does."""
    variables = _watched.get()
    return variables.code.co_name if variables is not None else ""
