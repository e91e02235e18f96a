"""C++ of a step of a scan, in two parts: what does not wait for carried values, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ....cellspec.cell import CellSpec
from ....cellspec.expression.graph import rewritten
from ....cellspec.expression.node import Node, symbol
from ...derive import Pointwise
from ...emit_function import emit_lines
from ...hoisting import hoisted
from ...layout import layout_of
from ...pointwise_functions import PointwiseFunction
from ...program import AnyStatement, Program, Statement, symbols_of, targets_of, values_of
from ...shape import Direction
from .form import Form, form_of


@dataclass(frozen=True)
class StepFunctions:
    """The functions of a step of one direction.

    Attributes:
        early: computes values that do not wait for what is carried: of gates, or of what a
            forward stored, and of params.
        late: the rest of the step, which reads them.
        rows: of a forward, the product of each row of the matrix with `column[j]`, in C++.
    """

    early: PointwiseFunction
    late: PointwiseFunction
    rows: tuple[str, ...] = ()


def step_functions(
    pointwise: Pointwise, direction: Direction, passed: Sequence[str]
) -> StepFunctions:
    """The functions of a step.

    Args:
        pointwise: the derived maps of a cell whose direction a scan computes.
        direction: which of the two.
        passed: functions of the table that the caller of a forward passes.
    """
    cell, layout = pointwise.cell, layout_of(pointwise.cell)
    form, constants = form_of(cell, direction), [c.name for c in cell.constants]
    params, states = layout.params.names, layout.states.names
    fixed = hoisted(pointwise.program(direction), params, constants)
    after = tuple(f"{s}_next" for s in states)
    kinds: dict[str, tuple[str, ...]] = {"param": (*params, *fixed.names)}
    if direction == "forward":
        carried_by = {layout.gates[gate] for gate in layout.diagonal_gates.values}
        known = [gate for gate in layout.gates.names if gate not in carried_by]
        kinds |= {"gate": layout.gates.names}
        late = {"state": states}
    else:
        kinds |= {"saved": pointwise.saved, "before": states, "after": after}
        kinds |= {"input": layout.unweighted.space.names}
        known = [name for kind in kinds if kind != "param" for name in kinds[kind]]
        late = {"d_after": tuple(f"d_{s}" for s in after)}
    parts = hoisted(fixed.program, [*known, *kinds["param"]], constants, "_early")
    early = replace(parts.fixed, inputs=tuple(map(symbol, [*known, *kinds["param"]])))
    rows: tuple[str, ...] = ()
    if direction == "forward":
        early, rows = _with_matrix(form, early, (fixed.fixed, parts.fixed))
        kinds |= {"weight": tuple(name or f"_weight_{i}" for i, name in enumerate(form.weights))}
    rest = parts.program
    if direction == "backward":
        # The first pass needs these alone; the second computes the others.
        early, rest = _for_carried(form, cell, early, rest)
    names = tuple(output.name for output in early.outputs)
    passes = passed if direction == "forward" else ()

    def function(name: str, program: Program, of: dict[str, tuple[str, ...]]) -> PointwiseFunction:
        parameters = tuple(name for names in of.values() for name in names)
        return PointwiseFunction(
            emit_lines(name, program, parameters, cell.constants, passes),
            parameters,
            tuple(str(output) for output in program.outputs),
            of,
            frozenset(each.name for each in program.inputs),
        )

    read = {output.name for output in parts.fixed.outputs}
    given = tuple(name if name in read else f"_of_matrix_{name}" for name in names)
    of_late = {kind: of for kind, of in kinds.items() if kind != "weight"}
    of_late |= {**late, "early": given}
    return StepFunctions(
        function("step_early", early, kinds), function("step_late", rest, of_late), rows
    )


def _for_carried(
    form: Form, cell: CellSpec, early: Program, late: Program
) -> tuple[Program, Program]:
    """A backward in which only what the carried gradients need is early."""
    layout = layout_of(cell)
    wanted = {symbol(f"d_{name}") for name in form.carried}
    wanted |= {symbol(f"d_{layout.gates[gate]}") for gate in layout.diagonal_gates.values}
    needed = _needed(late.statements, wanted)
    kept = tuple(output for output in early.outputs if output in needed)
    known = [statement for statement in early.statements if isinstance(statement, Statement)]
    own = _needed(known, set(kept))
    others = set(early.outputs).difference(kept)
    again = _needed([s for s in known if s.target not in kept], others)
    return (
        replace(early, statements=tuple(s for s in known if s.target in own), outputs=kept),
        replace(
            late,
            statements=(
                *(s for s in known if s.target in again and s.target not in kept),
                *late.statements,
            ),
        ),
    )


def _needed(statements: Sequence[AnyStatement], wanted: set[Node]) -> set[Node]:
    """The names that a program's statements read, directly or not, for some of their targets."""
    needed = set(wanted)
    for statement in reversed(statements):
        if needed.intersection(targets_of([statement])):
            needed |= symbols_of(values_of([statement]))
    return needed


def _with_matrix(
    form: Form, early: Program, known: Iterable[Program]
) -> tuple[Program, tuple[str, ...]]:
    """The program with the entries of the matrix, and the rows of products with a column.

    An entry that the step computes itself is not computed again.
    """
    assert form.coefficients is not None
    names: dict[Node, Node] = {}  # of values, as functions of gates, params and weights alone
    meanings: dict[Node, Node] = {}
    for program in known:
        for statement in program.statements:
            assert isinstance(statement, Statement)
            (value,) = rewritten([statement.value], meanings)
            meanings[statement.target] = value
            names.setdefault(value, statement.target)
    results = {output: output for output in early.outputs}
    found: dict[Node, Node] = {}
    statements = list(early.statements)
    wanted = set(form.coefficients.outputs)
    inner: dict[Node, Node] = {}
    for statement in form.coefficients.statements:
        assert isinstance(statement, Statement)
        (value,) = rewritten([statement.value], inner)
        inner[statement.target] = value
        if statement.target not in wanted:
            continue
        (value,) = rewritten([value], names)
        if value not in results:
            statements.append(Statement(statement.target, value))
            results[statement.target] = statement.target
            value = statement.target
        found[statement.target] = value
    outputs = list(results)
    count = len(form.carried)
    rows = []
    for row in range(count):
        entries = [(k, symbol(f"a_{row}_{k}")) for k in range(count)]
        rows.append(
            " + ".join(
                f"early[{outputs.index(found[entry])}]*column[j][{k}]"
                for k, entry in entries
                if entry in found
            )
        )
    return replace(early, statements=tuple(statements), outputs=tuple(outputs)), tuple(rows)
