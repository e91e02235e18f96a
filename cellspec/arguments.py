"""The arguments of a call of the language, in their places or by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from .errors import CellError

_CHECKED: dict[str, Signature] = {}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Signature:
    """Arguments that a function of the language takes.

    Attributes:
        name: of the function.
        arguments: the names of its arguments.
        defaults: default values of the last arguments.
        rest: the name of any more operands; empty if it takes none.
    """

    name: str
    arguments: tuple[str, ...]
    defaults: tuple[float | None, ...] = ()
    rest: str = ""

    @property
    def listed(self) -> str:
        """The names of all arguments."""
        return ", ".join([*self.arguments, *([f"*{self.rest}"] if self.rest else [])])

    @property
    def text(self) -> str:
        """The function's name and arguments, with their defaults."""
        if not self.defaults:
            return f"{self.name}({self.listed})"
        first = len(self.arguments) - len(self.defaults)
        named = [f"{a}={v}" for a, v in zip(self.arguments[first:], self.defaults, strict=True)]
        return f"{self.name}({', '.join([*self.arguments[:first], *named])})"

    def filled(self, operands: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Return all arguments of a call in their order.

        Args:
            operands: the first arguments.
            named: others, by their names.

        Raises:
            CellError: a missing argument, one too many or given twice, or none of that name.
        """
        for name in named:
            if name not in self.arguments[len(operands) :]:
                twice = name in self.arguments
                found = f"{name} given twice" if twice else f"no argument {name!r} of {self.name}"
                raise CellError(found, self.listed, self.text)
        first = len(self.arguments) - len(self.defaults)
        given = dict(zip(self.arguments[first:], self.defaults, strict=True))
        given |= {**dict(zip(self.arguments, operands, strict=False)), **named}
        too_many = len(operands) > len(self.arguments) and not self.rest
        if too_many or len(given) < len(self.arguments):
            least = "at least " if self.rest else ""
            raise CellError(
                f"{self.name} with {len(operands) + len(named)} argument(s)",
                f"{least}{len(self.arguments)}: {self.listed}",
                self.text,
            )
        return [given[name] for name in self.arguments]


def signatures() -> dict[str, str]:
    """The signature of each function of the language, as text, by its name."""
    # What they import imports this module. Those that are no rows are known once they are imported.
    from . import gradients as _gradients
    from .functions import TABLE
    from .stages import reductions as _reductions
    from .tracing import repeat as _repeat

    del _gradients, _reductions, _repeat
    rows = {name: row.signature for name, row in TABLE.items()}
    return rows | {name: signature.text for name, signature in _CHECKED.items()}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse wrong arguments of a function of the language as those of the table's rows are."""
    by_kind: dict[Any, list[str]] = {}
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        by_kind.setdefault(parameter.kind, []).append(parameter.name)
    (rest,) = by_kind.get(inspect.Parameter.VAR_POSITIONAL, [""])
    arguments = tuple(by_kind[inspect.Parameter.POSITIONAL_OR_KEYWORD])
    defaults = tuple(p.default for p in parameters if p.default is not p.empty)
    signature = Signature(function.__name__, arguments, defaults, rest)
    _CHECKED[function.__name__] = signature

    @wraps(function)
    def call(*operands: P.args, **named: P.kwargs) -> R:
        signature.filled(operands, named)
        return function(*operands, **named)

    return call
