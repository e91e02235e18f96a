"""C++ functions of programs, which are legal CUDA too."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from ..cellspec.declare import Constant
from ..cellspec.expression.node import Node
from .emit import spelled
from .emit_lanes import lane_lines
from .emit_pieces import constant_lines, piece_lines
from .emit_statements import Line, statement_lines
from .origins import joined
from .program import Program, values_of

# A name, but not that of a function in a namespace: a cell may have it too.
_NAME = re.compile(r"(?<![\w:])[A-Za-z_]\w*")
NBSP = "\N{NO-BREAK SPACE}"


def emit_function(
    name: str,
    program: Program,
    arguments: Iterable[str],
    constants: Sequence[Constant],
    passed: Sequence[str] = (),
) -> str:
    """The text of `emit_lines`, which has the same arguments."""
    lines = emit_lines(name, program, arguments, constants, passed)
    return "\n".join(line.text for line in lines)


def emit_lines(
    name: str,
    program: Program,
    arguments: Iterable[str],
    constants: Sequence[Constant],
    passed: Sequence[str] = (),
    *,
    in_blocks: bool = False,
    in_pieces: bool = False,
) -> tuple[Line, ...]:
    """An inline C++ function of a program, with values as inputs and references as outputs.

    Args:
        name: the function's name.
        program: what it computes.
        arguments: the names of its inputs in order. Inputs that the program does not use stay, so
            that calls have the same form for every cell.
        constants: the cell's numbers; those in use are declared in the function.
        passed: functions of the table that the caller passes last, as objects of any type. Each
            type has the function's name after a `_`, with which no name of a cell begins.
        in_blocks: whether inputs and outputs are values of each unit of a block.
        in_pieces: whether it calls functions of a few statements each, which stand before it.

    Returns:
        The lines, which are identical in every process. A line names the terms of its statement,
        or those whose names it has.
    """
    inputs, outputs = list(arguments), [o.name for o in program.outputs]
    given, result = ("const Lanes&", "Lanes&") if in_blocks else ("real", "real&")
    kind = "RNNC_BLOCK" if in_blocks else "RNNC_INLINE"
    parameters = [f"{given} {spelled(name)}" for name in inputs]
    parameters += [f"{result} {spelled(name)}" for name in outputs]
    parameters += [f"_{f}& {f}" for f in passed]
    # No-break spaces keep a type and its name on one line.
    head = f"{kind} void {name}({', '.join(p.replace(' ', NBSP) for p in parameters)}) {{"
    wrapped = textwrap.wrap(head, width=100, subsequent_indent="    ", break_long_words=False)
    types = ", ".join(f"typename _{f}" for f in passed)
    lines = [f"template <{types}>"] if passed else []
    lines += [line.replace(NBSP, " ") for line in wrapped]
    lines += [line.text for line in constant_lines(values_of(program.statements), constants)]
    head_lines = [Line(text, named_terms(text, program.named_after)) for text in lines]
    pieces: Iterable[Line] = ()
    body: Iterable[Line]
    if in_blocks:
        body = lane_lines(program.statements, {*inputs, *outputs})
    elif in_pieces:
        pieces, body = piece_lines(name, program, constants, passed)
    else:
        body = statement_lines(program.statements, set(outputs))
    return (*pieces, *head_lines, *body, Line("}"))


def named_terms(text: str, named_after: Mapping[str, tuple[Node, ...]]) -> tuple[Node, ...]:
    """The terms whose names a text has.

    Args:
        text: of one line, code or a comment.
        named_after: the terms that names show.
    """
    shown = {**named_after, **{spelled(name): terms for name, terms in named_after.items()}}
    return joined(shown.get(name, ()) for name in _NAME.findall(text))
