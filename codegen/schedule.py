"""From definitions to statements: shared subexpressions computed once, in an order that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import sympy

from ..cellspec.functions import TABLE
from .program import Program, Statement, symbols_of

_Bodies = dict[sympy.Symbol, sympy.Basic]


def schedule(
    definitions: Mapping[sympy.Symbol, sympy.Expr],
    outputs: Iterable[sympy.Symbol],
    *,
    constants: Iterable[str],
    taken: Iterable[str],
) -> Program:
    """Order definitions into a program, with common subexpressions in temporaries.

    Args:
        definitions: a value for each target, over inputs and other targets.
        outputs: the targets that are results; the others are temporaries and appear only where
            an output needs them more than once.
        constants: symbols that are no inputs, because the source spells them as numbers.
        taken: names that temporaries must not take.

    Returns:
        The program; temporaries are named after what they hold (`sigmoid_f`) or `t0`, `t1`, ….
    """
    outputs = tuple(outputs)
    values = list(definitions.values())
    placeholders = sympy.numbered_symbols("_")  # no name of a cell starts with _
    shared, values = sympy.cse(values, symbols=placeholders, order="canonical", list=True)
    bodies: _Bodies = {**dict(shared), **dict(zip(definitions, values, strict=True))}
    _adopt_outputs(bodies, outputs)
    _inline_single_uses(bodies, outputs)
    order = _reachable(outputs, bodies)
    names = _names(order, bodies, outputs, {*taken, *constants})
    statements = tuple(Statement(names[t], bodies[t].xreplace(names)) for t in order)
    inputs = symbols_of(s.value for s in statements) - {s.target for s in statements}
    return Program(
        inputs=tuple(sorted((s for s in inputs if s.name not in set(constants)), key=str)),
        statements=statements,
        outputs=outputs,
    )


def _adopt_outputs(bodies: _Bodies, outputs: tuple[sympy.Symbol, ...]) -> None:
    """Where an output is no more than a temporary, let the output be computed in its place."""
    for output in outputs:
        temporary = bodies[output]
        if temporary in bodies and temporary not in outputs:
            bodies[output] = bodies.pop(temporary)
            for target in bodies:
                bodies[target] = bodies[target].xreplace({temporary: output})


def _inline_single_uses(bodies: _Bodies, outputs: tuple[sympy.Symbol, ...]) -> None:
    """Dissolve temporaries that save nothing: those used once, and mere changes of sign."""
    while True:
        order = _reachable(outputs, bodies)
        uses = Counter(
            node
            for target in order
            for node in sympy.preorder_traversal(bodies[target])
            if node in bodies
        )
        single = next(
            (t for t in order if t not in outputs and (uses[t] == 1 or _is_sign_change(bodies[t]))),
            None,
        )
        if single is None:
            return
        body = bodies.pop(single)
        for target in bodies:
            bodies[target] = bodies[target].xreplace({single: body})


def _is_sign_change(value: sympy.Basic) -> bool:
    return bool(
        value.is_Mul and len(value.args) == 2 and value.args[0] == -1 and value.args[1].is_Symbol
    )


def _reachable(outputs: tuple[sympy.Symbol, ...], bodies: _Bodies) -> list[sympy.Symbol]:
    """The targets that the outputs need, each after those that it needs itself."""
    order: dict[sympy.Symbol, None] = {}

    def visit(target: sympy.Symbol) -> None:
        if target in order:
            return
        for symbol in sorted(bodies[target].free_symbols, key=str):
            if symbol in bodies:
                visit(symbol)
        order[target] = None

    for output in outputs:
        visit(output)
    return list(order)


def _names(
    order: list[sympy.Symbol],
    bodies: _Bodies,
    outputs: tuple[sympy.Symbol, ...],
    taken: set[str],
) -> dict[sympy.Symbol, sympy.Symbol]:
    """A name for each target: outputs keep theirs, a function of one symbol is named after both."""
    names: dict[sympy.Symbol, sympy.Symbol] = {}
    used = {*taken, *(o.name for o in outputs)}
    for target in order:
        if target in outputs:
            names[target] = target
            continue
        body = bodies[target].xreplace(names)
        if target.name.endswith("_sum"):
            wish = target.name
        elif body.func.__name__ in TABLE and len(body.args) == 1 and body.args[0].is_Symbol:
            wish = f"{body.func.__name__}_{body.args[0]}"
        else:
            wish = ""
        if not wish or wish in used:
            wish = next(n for n in (f"t{i}" for i in range(len(order) + 1)) if n not in used)
        used.add(wish)
        names[target] = sympy.Symbol(wish)
    return names
