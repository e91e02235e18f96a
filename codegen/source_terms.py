"""Which terms of a cell's equations each line of a source came from."""

from __future__ import annotations

import re

from ..cellspec.expression.graph import calls, everywhere
from ..cellspec.expression.node import Node
from ..cellspec.printing.equations import equation_lines, equation_terms
from .derive import Pointwise
from .emit_function import named_terms
from .pointwise_functions import pointwise_functions
from .program import assignments
from .render import Source

_HELPER = re.compile(r"RNNC_INLINE real (\w+)\(")
# Before each equation in a source.
_COMMENT = "//   "

Terms = tuple[Node, ...]


def source_terms(pointwise: Pointwise, source: Source) -> tuple[Terms, ...]:
    """For each line of a source's code, the terms of the equations that it came from.

    A line of a pointwise function came from the terms of its statement. A comment with an equation
    came from all terms of the equation. Any other line came from the terms whose names it has, as
    where `sigmoid_f` is stored. A function of the table came from a term if no other term calls it.

    Args:
        pointwise: the derived programs that the source was rendered from.
        source: one translation unit.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> from rnnc.codegen.source_terms import source_terms
        >>> source = rnnc.cells.elman.cuda(head_dim=16).backward_unit
        >>> lines = zip(source.code.splitlines(), source_terms(derive(rnnc.cells.elman), source))
        >>> [line.strip() for line, terms in lines if "tanh(g)" in map(str, terms)]
        ["//   h' = tanh(g)", 'd_g = d_h_next*(real(1) - h_next*h_next);']
    """
    lines = source.code.split("\n")
    cell = pointwise.cell
    equations = dict(zip(equation_lines(cell), equation_terms(cell), strict=True))
    names = _names(pointwise)
    found: list[Terms] = []
    for line in lines:
        shown = equations.get(line.removeprefix(_COMMENT)) if line.startswith(_COMMENT) else None
        helper = _HELPER.match(line)
        if shown is None and helper:
            shown = _only_caller(pointwise, helper[1])
        found.append(named_terms(line, names) if shown is None else shown)
    for function in pointwise_functions(pointwise, source.plan).values():
        texts = [line.text for line in function.lines]
        for first in range(len(lines) - len(texts) + 1):
            if lines[first : first + len(texts)] == texts:
                found[first : first + len(texts)] = [line.terms for line in function.lines]
    return tuple(found)


def _names(pointwise: Pointwise) -> dict[str, Terms]:
    """The values that the forward saves under a name that shows a term."""
    names = {}
    for name in pointwise.saved:
        terms = pointwise.forward.named_after.get(name)
        if terms:
            names[name] = terms
    return names


def _only_caller(pointwise: Pointwise, function: str) -> Terms:
    """The term that calls a function, if no other term does, nor the derivative of one."""
    nodes = everywhere(pointwise.cell.updates)
    callers = tuple(n for n in nodes if n.op == "call" and n.name == function)
    programs = (*pointwise.forward.statements, *pointwise.backward.statements)
    statements = tuple(assignments(programs))
    alone = len(callers) == 1 and all(
        callers[0] in s.terms for s in statements if function in calls([s.value])
    )
    return callers if alone else ()
