"""`trace`: makes a cell of a Python function, which runs once on symbols."""

from __future__ import annotations

import inspect
import linecache
import math
import numbers
import re
import traceback
from collections.abc import Callable
from typing import Any, TypeVar, overload

from .. import refuse
from ..arguments import signatures
from ..cell import CellSpec
from ..declare import Constant, Gate, Input, Param, State, gate, param, state
from ..errors import CellError
from ..expression.graph import canonical_nodes
from ..expression.node import Node, number, symbol
from ..names import is_usable
from ..noise.draw import DISTRIBUTIONS
from ..stages.calls import recorded
from .place import expression_of_error, place, place_of_error, raised_here
from .refusing import number_of, shown
from .tracer import Tracer, expression, shared_owner
from .variables import watched

CellType = TypeVar("CellType", bound=CellSpec)


def _input() -> Input:
    """Return what an argument `dt: Input` declares, which has no options."""
    return Input(name="")


_DEFAULTS: dict[type, Callable[[], Any] | None] = {
    Gate: gate,
    State: state,
    Input: _input,
    Param: param,
    Constant: None,
}


def trace(function: Callable[..., Any], kind: type[CellType]) -> CellType:
    """Make a cell of a function with Gate, State, Input, Param and Constant arguments.

    Args:
        function: returns the new value of each state, in the order of the signature.
        kind: the class of cell to make.

    Raises:
        CellError: the signature or the body is not in the language; its place is a file and line.
    """
    if not inspect.isfunction(inspect.unwrap(function)):
        raise CellError(
            f"cell({shown(function)})",
            "a function of Gate, State, Input, Param and Constant arguments",
            "@rnnc.cell above its def",
        )
    code = inspect.unwrap(function).__code__
    header = f"{function.__name__}, {place(code.co_filename, code.co_firstlineno)}"
    try:
        parameters = _signature(function).parameters.values()
        declarations = [_declaration(p) for p in parameters]
        tracers = {d.name: Tracer(symbol(d.name), function.__name__) for d in declarations}
        by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        states = [d.name for d in declarations if isinstance(d, State)]
        declared = {d.name: d for d in declarations}
        with watched(code) as variables, recorded(declared, code) as calls:
            returned = _run(function, tracers, by_name, states)
            updates = tuple(_update(value, function.__name__) for value in returned)
        canonical = canonical_nodes(updates)
        names = variables.names(tracers, is_usable)
        return kind(
            name=function.__name__,
            doc=inspect.getdoc(function) or "",
            gates=calls.with_sources(tuple(d for d in declarations if isinstance(d, Gate))),
            states=tuple(d for d in declarations if isinstance(d, State)),
            inputs=tuple(d for d in declarations if isinstance(d, Input)),
            params=tuple(d for d in declarations if isinstance(d, Param)),
            constants=tuple(d for d in declarations if isinstance(d, Constant)),
            updates=tuple(canonical[update] for update in updates),
            variables=tuple((canonical[n], name) for n, name in names.items() if n in canonical),
        )
    except CellError as error:
        if error.where in ("", function.__name__):
            # An error without a line of its own is reported at the function's first line.
            error = CellError(error.found, error.wanted, error.write, header)
        raise error from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise CellError(
            f"an annotation with the unknown name `{error.name}`",
            "Gate, State, Input, Param or Constant",
            "from rnnc import Gate, State, Input, Param, Constant",
        ) from error


def _declaration(parameter: inspect.Parameter) -> Gate | State | Input | Param | Constant:
    name, kind, default = parameter.name, parameter.annotation, parameter.default
    draw = _draw_of(default)
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise CellError(
            f"the argument *{name}", "named arguments, each with an annotation", f"{name}: Gate"
        )
    if kind not in _DEFAULTS:
        found = "no annotation" if kind is parameter.empty else f"the annotation {kind!r}"
        raise CellError(
            f"the argument `{name}` with {found}",
            "Gate, State, Input, Param or Constant",
            f"{name}: Constant = constant({number_of(default)!r})"
            if _is_number(default)
            else f"{name}: Input = {draw}"
            if draw
            else f"{name}: Gate",
        )
    if default is parameter.empty:
        make = _DEFAULTS[kind]
        if make is None:
            raise CellError(
                f"the constant `{name}` without a value",
                "a number that with_constants can override",
                f"{name}: Constant = constant(0.1)",
            )
        default = make()
    if not isinstance(default, kind):
        found = f"the argument `{name}: {kind.__name__}` with the default "
        if draw:
            found += repr(default.draw) if isinstance(default, Input) else default.__name__
            wanted = "a draw as the default of an Input: a call draws no other value"
            if kind is Input:
                wanted = "a call of it, which says what is drawn"
            raise CellError(found, wanted, f"{name}: Input = {draw}")
        if kind is Input:
            raise CellError(
                f"{found}{default!r}",
                "no default: the caller passes a tensor; or bernoulli(), uniform() or normal()",
                f"{name}: Input, and inputs={{{name!r}: …}} in the call",
            )
        maker = kind.__name__.lower()
        value = (
            repr(number_of(default)) if _is_number(default) else "0.1" if kind is Constant else ""
        )
        option = value if kind is Constant or not value else f"init={value}"
        raise CellError(
            f"{found}{default!r}",
            f"a default made by {maker}()",
            f"{name}: {kind.__name__} = {maker}({option if kind is not Gate else ''})",
        )
    declared: Gate | State | Input | Param | Constant = default.model_copy(update={"name": name})
    return declared


def _draw_of(default: Any) -> str:
    """Spell the draw that a default declares, or would declare if it was called; "" for others."""
    if isinstance(default, Input) and default.draw is not None:
        return repr(default.draw)
    name = getattr(default, "__name__", "")
    return (
        DISTRIBUTIONS[name].example if inspect.isfunction(default) and name in DISTRIBUTIONS else ""
    )


def _run(
    function: Callable[..., Any],
    tracers: dict[str, Tracer],
    by_name: set[str],
    states: list[str],
) -> tuple[Any, ...]:
    positional = [t for name, t in tracers.items() if name not in by_name]
    keyword = {name: tracers[name] for name in by_name}
    try:
        returned = function(*positional, **keyword)
    except RecursionError as error:
        raise CellError(
            "a Python function that calls itself without end",
            "a body whose calls end; its expressions may have any depth",
            "a loop in place of the recursion",
        ) from error
    except Exception as error:
        refused = _refused(error, function.__code__.co_filename, list(tracers))
        if refused is None:
            raise
        where = place_of_error(error, function.__code__.co_filename)
        cause = None if isinstance(error, CellError) else error
        raise refused.at(f"{function.__name__}, {where}") from cause
    if isinstance(returned, dict):
        raise refuse.returned(returned, states)
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def _refused(error: Exception, filename: str, known: list[str]) -> CellError | None:
    """The error of the language that an exception in a body stands for; None for the author's own.

    Args:
        error: what running the cell's function raised.
        filename: the file of the function.
        known: the names of its arguments.
    """
    if isinstance(error, NameError):
        return _unknown_name(str(error.name), error, known)
    # Libraries raise an error of their own where a number of theirs cannot be made of a value.
    for raised in (error, error.__cause__):
        if isinstance(raised, CellError):
            return raised
    # Python itself raises a TypeError in the author's line.
    if isinstance(error, TypeError) or raised_here(error):
        return refuse.exception(error, expression_of_error(error, filename))
    return None


def _unknown_name(name: str, error: BaseException, known: list[str]) -> CellError:
    line = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        line = line or linecache.getline(frame.filename, frame.lineno or 0)
    ours = name in signatures()
    if ours or not re.search(rf"\b{re.escape(name)}\s*\(", line):
        remedy = f"{name}: Gate, State, Input, Param or Constant = constant(…) in the signature"
        write = f"from rnnc import {name}" if ours else remedy
        return CellError(
            f"the unknown name `{name}`", f"the names of the signature: {', '.join(known)}", write
        )
    return CellError(
        f"a call of the unknown name `{name}`",
        "a function of rnnc or of Python; a product with a matrix is a call of a gate",
        f"{name}: Gate = gate(input=False) in the signature, for a product with a matrix",
    )


def _is_number(value: object) -> bool:
    return (
        isinstance(value, numbers.Real)
        and not isinstance(value, bool)
        and math.isfinite(number_of(value))
    )


def _update(value: Any, owner: str) -> Node:
    if value is None:
        raise CellError(
            "a function that returns nothing", "the new value of each state, in order", "return h"
        )
    if isinstance(value, set | frozenset | str):
        raise CellError(
            f"{shown(value)} returned",
            "the new value of each state, in the order of the signature",
            "return h, c",
        )
    update = expression(value)
    if isinstance(value, Tracer):
        shared_owner(value, Tracer(number(0), owner))
    return update


@overload
def cell(function: Callable[..., Any]) -> CellSpec: ...
@overload
def cell() -> Callable[[Callable[..., Any]], CellSpec]: ...
def cell(function: Callable[..., Any] | None = None) -> Any:
    """Make a plain `CellSpec` of a function, as the library's files do.

    Users call `rnnc.cell`, which makes a `rnnc.Cell` with methods for kernels and modules.

    Raises:
        CellError: the signature or the body is not in the language; its place is a file and line.
    """
    return cell if function is None else trace(function, CellSpec)
