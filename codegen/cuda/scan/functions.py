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
        matrix: of a forward, computes the entries of the matrix that read states which are maxima.
        shifts: of a forward, what maxima add to their states, by their numbers in `early`.
    """

    early: PointwiseFunction
    late: PointwiseFunction
    rows: tuple[str, ...] = ()
    matrix: PointwiseFunction | None = None
    shifts: tuple[int, ...] = ()


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
    matrix = _Matrix()
    if direction == "forward":
        early, matrix = _with_matrix(form, early, (fixed.fixed, parts.fixed))
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
    of_matrix = None
    if matrix.late is not None:
        of = {**kinds, **late, "early": names}
        of_matrix = function("step_matrix", matrix.late, of)
    return StepFunctions(
        function("step_early", early, kinds),
        function("step_late", rest, of_late),
        matrix.rows,
        of_matrix,
        matrix.shifts,
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


@dataclass(frozen=True)
class _Matrix:
    """Rows of products with a column, the program of entries that read maxima, and what is added
    to these, as `StepFunctions` has them.
    """

    rows: tuple[str, ...] = ()
    late: Program | None = None
    shifts: tuple[int, ...] = ()


def _with_matrix(form: Form, early: Program, known: Iterable[Program]) -> tuple[Program, _Matrix]:
    """The program with the entries of the matrix that read no state, and the matrix.

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
    found: dict[Node, Node] = {}  # the name of the value of each entry
    waiting: dict[Node, Node] = {}  # of values that read maxima
    maxima = {symbol(name) for name in form.maxima}
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
        if maxima & symbols_of([value]):
            found[statement.target] = waiting.setdefault(value, statement.target)
            continue
        if value not in results:
            statements.append(Statement(statement.target, value))
            results[statement.target] = statement.target
            value = statement.target
        found[statement.target] = value
    places = {name: f"early[{i}]" for i, name in enumerate(results)}
    places |= {name: f"entry[{i}]" for i, name in enumerate(waiting.values())}
    count = range(len(form.linear))
    rows = []
    for row in count:
        entries = [(k, found.get(symbol(f"a_{row}_{k}"))) for k in count]
        rows.append(" + ".join(f"{places[entry]}*column[j][{k}]" for k, entry in entries if entry))
    late = None
    if waiting:
        wanted_late = tuple(Statement(name, value) for value, name in waiting.items())
        read = symbols_of(waiting)
        late = Program(tuple(sorted(read, key=str)), wanted_late, tuple(waiting.values()))
    outputs = list(results)
    shifts = (outputs.index(found[symbol(f"shift_{i}")]) for i in range(len(form.maxima)))
    early = replace(early, statements=tuple(statements), outputs=tuple(outputs))
    return early, _Matrix(tuple(rows), late, tuple(shifts))
