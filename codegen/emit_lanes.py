"""C++ statements of programs with loops, for a block of units at a time.

A compiler turns a loop over units into vector code only where it is the innermost loop. So the
passes of a loop go around it: the statements between the heads and the ends of loops are a run,
which is one loop over the units of a block. What a run hands to another one is an array over units.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from .emit import cpp, spelled
from .emit_statements import INDENT, Line
from .parts import Array, Assignment, Control, Part, parts_of
from .program import AnyStatement, symbols_of

# The array over a block for each type. That of conditions has numbers as long as a `real`: all
# values of a vector loop have one length then.
_ARRAYS = {"real": "Lanes", "bool": "Conditions"}


@dataclass(eq=False)
class _Variable:
    """A variable of the source.

    Attributes:
        run: the run that declares it, if one does.
        array: whether it has a value for each unit of a block.
    """

    run: _Run | None
    array: bool


@dataclass(eq=False)
class _Run:
    """Assignments of one loop over units, each with the variables that it names."""

    assignments: list[tuple[Assignment, dict[str, _Variable]]] = field(default_factory=list)


def lane_lines(statements: Iterable[AnyStatement], arguments: Collection[str]) -> Iterator[Line]:
    """The lines of statements.

    Args:
        statements: in the order in which they run.
        arguments: the names of the function's inputs and outputs, which are arrays.
    """
    names = {spelled(name): _Variable(None, array=True) for name in arguments}
    for item in _runs(parts_of(statements, arguments), ChainMap(names)):
        match item:
            case _Run():
                yield from _run_lines(item)
            case Array(name, size, depth):
                yield Line(f"{INDENT * depth}Lanes {name}[{size}];")
            case Control(text, depth):
                yield Line(f"{INDENT * depth}{text}")


def _runs(parts: Iterable[Part], scope: ChainMap[str, _Variable]) -> list[_Run | Array | Control]:
    """Unite the assignments that follow each other, and find the variables that are arrays."""
    found: list[_Run | Array | Control] = []
    run = _Run()
    for part in parts:
        if isinstance(part, Assignment):
            if not run.assignments:
                found.append(run)
            run.assignments.append((part, _variables(part, run, scope)))
            continue
        run = _Run()
        found.append(part)
        if isinstance(part, Array):
            scope[part.name] = _Variable(None, array=True)
        elif part.text.endswith("{"):
            scope = scope.new_child()
        elif part.text == "}":
            scope = scope.parents
    return found


def _variables(
    part: Assignment, run: _Run, scope: ChainMap[str, _Variable]
) -> dict[str, _Variable]:
    """The variables that an assignment names; those of other runs become arrays."""
    if isinstance(part.value, str):
        read = [_variable_of(part.value)]
    else:
        read = [spelled(s.name) for s in symbols_of([part.value])]
    found = {name: scope[name] for name in read if name in scope}  # others are constants
    if part.kind:
        scope[part.target] = _Variable(run, array=False)
    target = _variable_of(part.target)
    found[target] = scope[target]
    for variable in found.values():
        variable.array |= variable.run is not run
    return found


def _variable_of(place: str) -> str:
    """The variable of a text such as `kept_v_[pass1]`, or of a name."""
    return place.partition("[")[0]


def _run_lines(run: _Run) -> Iterator[Line]:
    depth = run.assignments[0][0].depth
    outside, inside = INDENT * depth, INDENT * (depth + 1)
    for part, variables in run.assignments:
        if part.kind and variables[part.target].array:
            yield Line(f"{outside}{_ARRAYS[part.kind.split()[-1]]} {part.target};", part.terms)
    yield Line("#pragma omp simd simdlen(kLanes)")
    yield Line(f"{outside}for (int lane = 0; lane < kBlock; ++lane) {{")
    for part, variables in run.assignments:
        arrays = {name for name, variable in variables.items() if variable.array}
        target = _of_lane(part.target, arrays)
        declared = f"{part.kind} {target}" if part.kind and target == part.target else target
        yield Line(f"{inside}{declared} = {_value(part, arrays)};", part.terms)
    yield Line(f"{outside}}}")


def _value(part: Assignment, arrays: set[str]) -> str:
    if isinstance(part.value, str):
        return _of_lane(part.value, arrays)
    return cpp(part.value, lambda name: _of_lane(spelled(name), arrays))


def _of_lane(place: str, arrays: set[str]) -> str:
    return f"{place}[lane]" if _variable_of(place) in arrays else place
