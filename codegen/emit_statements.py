"""C++ statements of programs: assignments, loops, and loops that run backwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..cellspec.expression.node import Node
from .emit import cpp, spelled
from .program import AnyStatement, Loop, Statement, Unwinding

_INDENT = "  "
# The passes share their registers, whatever their number.
_ROLLED = "#pragma unroll 1"


class Line(NamedTuple):
    """A line of C++.

    Attributes:
        text: the line.
        terms: the nodes of the cell's equations that it came from.
    """

    text: str
    terms: tuple[Node, ...] = ()


def statement_lines(
    statements: Iterable[AnyStatement], outputs: Collection[str] = (), depth: int = 1
) -> Iterator[Line]:
    """The lines of statements.

    Args:
        statements: in the order in which they run.
        outputs: the names that the function declares.
        depth: of the indentation, and of loops around them.
    """
    for statement in statements:
        match statement:
            case Statement():
                yield _assignment(statement, outputs, depth)
            case Loop():
                yield from _loop(statement, depth)
            case Unwinding():
                yield from _unwinding(statement, depth)


def _assignment(statement: Statement, outputs: Collection[str], depth: int) -> Line:
    target = statement.target.name
    temporary = "const bool " if statement.value.is_condition else "const real "
    declared = "" if target in outputs else temporary
    text = f"{_INDENT * depth}{declared}{spelled(target)} = {cpp(statement.value)};"
    return Line(text, statement.terms)


def _loop(loop: Loop, depth: int) -> Iterator[Line]:
    names, every = _names(loop.targets), loop.every
    yield from _declared("real", names, map(cpp, loop.starts), depth)
    if loop.keeps:
        yield from _arrays("kept", names, -(-loop.passes // every), depth)
    number = f"pass{depth}"
    yield from _head(f"int {number} = 0; {number} < {loop.passes}; ++{number}", depth)
    if loop.keeps and every == 1:
        yield from _stored("kept", number, names, depth + 1)
    elif loop.keeps:
        yield Line(f"{_INDENT * (depth + 1)}if ({number} % {every} == 0) {{")
        yield from _stored("kept", f"{number} / {every}", names, depth + 2)
        yield Line(f"{_INDENT * (depth + 1)}}}")
    yield from _pass(loop, depth)


def _unwinding(unwinding: Unwinding, depth: int) -> Iterator[Line]:
    loop, passes, every = unwinding.loop, unwinding.passes, unwinding.loop.every
    yield from _declared("real", _names(unwinding.targets), map(cpp, unwinding.starts), depth)
    if every == 1:
        yield from _backwards(unwinding, "kept", f"{passes - 1}", depth)
        return
    # From the values before each group of passes, those before each of its passes, once more.
    names, first, count, again = _names(loop.targets), f"first{depth}", f"count{depth}", depth + 1
    last = (passes - 1) // every * every
    yield from _head(f"int {first} = {last}; {first} >= 0; {first} -= {every}", depth)
    yield Line(
        f"{_INDENT * again}const int {count} ="
        f" {passes} - {first} < {every} ? {passes} - {first} : {every};"
    )
    yield from _arrays("again", names, every, again)
    yield Line(f"{_INDENT * again}{{")
    kept = (f"kept_{name}[{first} / {every}]" for name in names)
    yield from _declared("real", names, kept, again + 1)
    number = f"pass{again}"
    yield from _head(f"int {number} = 0; {number} < {count}; ++{number}", again + 1)
    yield from _stored("again", number, names, again + 2)
    yield from _pass(loop, again + 1)
    yield Line(f"{_INDENT * again}}}")
    yield from _backwards(unwinding, "again", f"{count} - 1", again)
    yield Line(f"{_INDENT * depth}}}")


def _backwards(unwinding: Unwinding, arrays: str, last: str, depth: int) -> Iterator[Line]:
    """The passes from the last to the first, whose carried values are in arrays."""
    number, names = f"pass{depth}", _names(unwinding.loop.targets)
    yield from _head(f"int {number} = {last}; {number} >= 0; --{number}", depth)
    values = (f"{arrays}_{name}[{number}]" for name in names)
    yield from _declared("const real", names, values, depth + 1)
    yield from _pass(unwinding, depth)


def _pass(loop: Loop | Unwinding, depth: int) -> Iterator[Line]:
    """The statements of a pass, the new carried values and the closing bracket."""
    yield from statement_lines(loop.statements, (), depth + 1)
    before, targets = _INDENT * (depth + 1), _names(loop.targets)
    new = dict(zip(targets, map(cpp, loop.new), strict=True))
    for target, value in new.items():
        # A carried value that becomes another one is copied before that one changes.
        if value in new and value != target:
            yield Line(f"{before}const real new_{target} = {value};")
    for target, value in new.items():
        copied = value in new and value != target
        if value != target:
            yield Line(f"{before}{target} = {f'new_{target}' if copied else value};")
    yield Line(f"{_INDENT * depth}}}")


def _head(header: str, depth: int) -> Iterator[Line]:
    yield Line(_ROLLED)
    yield Line(f"{_INDENT * depth}for ({header}) {{")


def _names(targets: Sequence[Node]) -> list[str]:
    return [spelled(target.name) for target in targets]


def _declared(kind: str, names: Iterable[str], values: Iterable[str], depth: int) -> Iterator[Line]:
    for name, value in zip(names, values, strict=True):
        yield Line(f"{_INDENT * depth}{kind} {name} = {value};")


def _arrays(kind: str, names: Iterable[str], size: int, depth: int) -> Iterator[Line]:
    for name in names:
        yield Line(f"{_INDENT * depth}real {kind}_{name}[{size}];")


def _stored(kind: str, place: str, names: Iterable[str], depth: int) -> Iterator[Line]:
    for name in names:
        yield Line(f"{_INDENT * depth}{kind}_{name}[{place}] = {name};")
