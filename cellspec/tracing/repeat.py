"""`repeat`: a loop inside a cell, whose body is traced once."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable
from typing import Any

from ..arguments import checked
from ..errors import CellError
from ..expression.loops import MOST_PASSES, repeated
from ..expression.node import Node, fresh_tag, make
from ..stages.calls import inside_repeat
from .refusing import number_of, shown
from .tracer import Condition, Tracer, expression, shared_owner


@checked
def repeat(n: int, step: Callable[..., Any], *values: Any) -> Any:
    """Apply a step to values n times, as a loop that stays a loop in all generated code.

    The meaning is `for _ in range(n): values = step(*values)`. The step is traced once, so the cell
    stays small however large n is. The gradient of a loop runs its passes backwards: it keeps the
    carried values of each pass, or of every few passes where those would take more than 2 KiB, and
    computes the rest of each pass again. `clip_gradient` in the step clips in every pass.

    Args:
        n: the number of passes, a whole number from 0 (the values themselves) to 65,536.
        step: takes the carried values and returns as many new ones. It may read all that the cell
            has computed before, call other functions, and repeat in turn.
        values: the carried values before the first pass: gates, states and other values of the
            cell, or numbers.

    Returns:
        The carried values after the last pass: one value, or a tuple if there are more.

    Raises:
        CellError: n is not such a number, there is no value, one of the values is a condition, or
            the step takes or returns another number of values.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, Param, State
        >>> @rnnc.cell
        ... def leaky(g: Gate, h: State, rate: Param):
        ...     return rnnc.repeat(10, lambda v: v + 0.1 * rate * (rnnc.tanh(g) - v), h)
        >>> for line in leaky.equations()[1:]:
        ...     print(line)
        t0 = tanh(g)
        t1 = 0.1*rate
        repeat 10 times, from t2 = h:
          t2 = t2 + t1*(t0 - t2)
        h' = t2
    """
    passes = _passes(n)
    if isinstance(step, Tracer | Condition) or not callable(step):
        raise CellError(
            f"{shown(step)} as the step of repeat",
            "a function of the carried values that returns as many new ones",
            "repeat(n, lambda v: v + dt * (g - v), h)",
        )
    if not values:
        raise CellError(
            "repeat without a value to carry",
            "at least one value that the step takes and returns",
            f"repeat({passes}, step, h)",
        )
    _check_step(step, len(values))
    starts = [_carried(value) for value in values]
    if passes < 2:
        found = values if passes == 0 else _run(step, _traced(starts, values))
        return tuple(found) if len(found) > 1 else found[0]
    since = fresh_tag()
    symbols = [make("symbol", name, (), fresh_tag()) for name in _names(step, len(values))]
    owner = shared_owner(*values)
    new = _run(step, [Tracer(symbol, owner) for symbol in symbols])
    owner = shared_owner(*values, *new)
    if not owner:
        raise CellError(
            "repeat without a gate, state, param or constant of a cell",
            "a step or carried values that read one",
            "the value itself, computed by Python",
        )
    roots = [_carried(value) for value in new]
    results = tuple(Tracer(r, owner) for r in repeated(passes, starts, symbols, roots, since))
    return results if len(results) > 1 else results[0]


def _passes(n: object) -> int:
    if isinstance(n, Tracer | Condition):
        raise CellError(
            f"{shown(n)} as the number of passes of repeat",
            "a whole number of Python: the generated loop has a fixed length",
            "where(i < n, new, v) in the step, for a length that the cell computes",
        )
    whole = isinstance(n, numbers.Integral) and not isinstance(n, bool)
    if not whole or not 0 <= number_of(n) <= MOST_PASSES:
        raise CellError(
            f"{shown(n)} as the number of passes of repeat",
            f"a whole number from 0 to {MOST_PASSES:,}",
            "repeat(50, step, h)",
        )
    return int(number_of(n))


def _check_step(step: Callable[..., Any], count: int) -> None:
    """Refuse a function that does not take as many values as are carried."""
    try:
        signature = inspect.signature(step)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        names = ", ".join(f"v{place}" for place in range(count))
        raise CellError(
            f"a step of repeat with the arguments {signature}, which carries {count} value(s)",
            "a function of the carried values: one argument for each, in their order",
            f"def step({names}): …, or lambda {names}: …",
        ) from error


def _carried(value: object) -> Node:
    if isinstance(value, Condition):
        raise CellError(
            f"the condition {shown(value)} as a carried value of repeat",
            "a number",
            f"where({shown(value).strip('`')}, 1, 0), and a comparison of it in the step",
        )
    return expression(value)


def _traced(starts: list[Node], values: tuple[Any, ...]) -> list[Tracer]:
    owner = shared_owner(*values)
    return [Tracer(node, owner) for node in starts]


def _names(step: Callable[..., Any], count: int) -> list[str]:
    """The names of the step's arguments, for messages."""
    try:
        names = [*inspect.signature(step).parameters]
    except (TypeError, ValueError):
        names = []
    return names if len(names) == count else [f"v{place}" for place in range(count)]


def _run(step: Callable[..., Any], values: list[Tracer]) -> tuple[Any, ...]:
    """The carried values after one pass."""
    with inside_repeat():
        return _returned(step(*values), len(values))


def _returned(value: Any, count: int) -> tuple[Any, ...]:
    if isinstance(value, dict | set | frozenset | str) or value is None:
        found = "nothing" if value is None else shown(value)
    else:
        new = tuple(value) if isinstance(value, tuple | list) else (value,)
        if len(new) == count:
            return new
        found = f"{len(new)} value(s)"
    raise CellError(
        f"{found} returned by the step of repeat, which carries {count}",
        f"{count} value(s), in the order of the step's arguments",
        f"return {', '.join(f'v{place}' for place in range(count))}"
        if count > 1
        else "return the new value",
    )
