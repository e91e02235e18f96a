"""From a Python function to a cell: the function runs once, on symbols."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import sympy

from .cell import CellSpec
from .declare import Constant, Gate, Param, State, gate, param, state
from .errors import CellError
from .functions import TABLE
from .place import place, place_of_error
from .tracer import Tracer, expression, factored, shared_owner

CellType = TypeVar("CellType", bound=CellSpec)

_DEFAULTS: dict[type, Callable[[], Any] | None] = {
    Gate: gate,
    State: state,
    Param: param,
    Constant: None,
}


def trace(function: Callable[..., Any], kind: type[CellType]) -> CellType:
    """Make a cell of a function whose arguments are annotated Gate, State, Param or Constant.

    Args:
        function: returns the new value of each state, in the order of the signature.
        kind: the class of cell to make.

    Raises:
        CellError: the signature or the body is not in the language; names file and line.
    """
    code = inspect.unwrap(function).__code__
    header = f"{function.__name__}, {place(code.co_filename, code.co_firstlineno)}"
    try:
        parameters = _signature(function).parameters.values()
        declarations = [_declaration(p) for p in parameters]
        tracers = {d.name: Tracer(sympy.Symbol(d.name), function.__name__) for d in declarations}
        by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        returned = _run(function, tracers, by_name)
        return kind(
            name=function.__name__,
            doc=inspect.getdoc(function) or "",
            gates=tuple(d for d in declarations if isinstance(d, Gate)),
            states=tuple(d for d in declarations if isinstance(d, State)),
            params=tuple(d for d in declarations if isinstance(d, Param)),
            constants=tuple(d for d in declarations if isinstance(d, Constant)),
            updates=tuple(_update(value, function.__name__) for value in returned),
        )
    except CellError as error:
        if error.where in ("", function.__name__):
            # A rule broken by the cell as a whole is reported at the function's head.
            error = CellError(error.found, error.wanted, error.write, header)
        raise error from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise CellError(
            f"an annotation with the unknown name `{error.name}`",
            "Gate, State, Param or Constant",
            "from rnnc import Gate, State, Param, Constant",
        ) from error


def _declaration(parameter: inspect.Parameter) -> Gate | State | Param | Constant:
    name, kind, default = parameter.name, parameter.annotation, parameter.default
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise CellError(
            f"the argument *{name}", "arguments by name, each with an annotation", f"{name}: Gate"
        )
    if kind not in _DEFAULTS:
        shown = "no annotation" if kind is parameter.empty else f"the annotation {kind!r}"
        raise CellError(
            f"the argument `{name}` with {shown}",
            "Gate, State, Param or Constant",
            f"{name}: Gate",
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
        maker = kind.__name__.lower()
        raise CellError(
            f"the argument `{name}: {kind.__name__}` with the default {default!r}",
            f"a default made by {maker}()",
            f"{name}: {kind.__name__} = {maker}({'0.1' if maker == 'constant' else ''})",
        )
    declared: Gate | State | Param | Constant = default.model_copy(update={"name": name})
    return declared


def _run(
    function: Callable[..., Any], tracers: dict[str, Tracer], by_name: set[str]
) -> tuple[Any, ...]:
    positional = [t for name, t in tracers.items() if name not in by_name]
    keyword = {name: tracers[name] for name in by_name}
    try:
        with factored():
            returned = function(*positional, **keyword)
    except CellError as error:
        where = place_of_error(error, function.__code__.co_filename)
        raise error.at(f"{function.__name__}, {where}") from None
    except NameError as error:
        where = place_of_error(error, function.__code__.co_filename)
        remedy = f"{error.name}: Gate, State, Param or Constant = constant(…) in the signature"
        raise CellError(
            f"the unknown name `{error.name}`",
            f"the names of the signature: {', '.join(tracers)}",
            f"from rnnc import {error.name}" if error.name in TABLE else remedy,
            where=f"{function.__name__}, {where}",
        ) from error
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def _update(value: Any, owner: str) -> sympy.Expr:
    if value is None:
        raise CellError(
            "a function that returns nothing", "the new value of each state, in order", "return h"
        )
    update = expression(value)
    if isinstance(value, Tracer):
        shared_owner(value, Tracer(sympy.Integer(0), owner))
    return update


def cell(function: Callable[..., Any]) -> CellSpec:
    """Make a plain `CellSpec` of a function: how the library's own files declare their cells.

    Users call `rnnc.cell`, which gives the `rnnc.Cell` with all its doors.

    Raises:
        CellError: the signature or the body is not in the language; names file and line.
    """
    return trace(function, CellSpec)
