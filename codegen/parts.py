"""Statements of a program in C++: assignments, arrays, and lines around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ..cellspec.expression.node import Node
from .emit import spelled
from .program import AnyStatement, Loop, Statement, Unwinding

# The passes share their registers, whatever their number.
_ROLLED = "#pragma unroll 1"


@dataclass(frozen=True)
class Assignment:
    """A value of a unit gets a name, or a place in an array: `kind target = value;`.

    Attributes:
        target: the C++ name, or the place, such as `kept_v_[pass1]`.
        value: what it is computed from, or the place in an array that holds it.
        kind: the type of a variable that it declares, else empty.
        depth: of the indentation, and of loops around it.
        terms: the nodes of the cell's equations that it came from.
    """

    target: str
    value: Node | str
    kind: str
    depth: int
    terms: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Array:
    """The declaration of an array of values of a unit."""

    name: str
    size: int
    depth: int


@dataclass(frozen=True)
class Control:
    """A line that all units share: the head or the end of a loop, or a number of passes."""

    text: str
    depth: int


Part = Assignment | Array | Control


def parts_of(
    statements: Iterable[AnyStatement], outputs: Collection[str] = (), depth: int = 1
) -> Iterator[Part]:
    """The parts of statements.

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


def kept_values(statements: Iterable[AnyStatement]) -> int:
    """The number of carried values that loops keep in arrays: on a GPU in local memory."""
    return sum(part.size for part in parts_of(statements) if isinstance(part, Array))


def _assignment(statement: Statement, outputs: Collection[str], depth: int) -> Assignment:
    target = statement.target.name
    temporary = "const bool" if statement.value.is_condition else "const real"
    kind = "" if target in outputs else temporary
    return Assignment(spelled(target), statement.value, kind, depth, statement.terms)


def _loop(loop: Loop, depth: int) -> Iterator[Part]:
    names, every = _names(loop), loop.every
    yield from _assigned("real", names, loop.starts, depth)
    if loop.keeps:
        yield from _arrays("kept", names, -(-loop.passes // every), depth)
    number = f"pass{depth}"
    yield from _head(f"int {number} = 0; {number} < {loop.passes}; ++{number}", depth)
    if loop.keeps and every == 1:
        yield from _stored("kept", number, loop, depth + 1)
    elif loop.keeps:
        yield Control(f"if ({number} % {every} == 0) {{", depth + 1)
        yield from _stored("kept", f"{number} / {every}", loop, depth + 2)
        yield Control("}", depth + 1)
    yield from _pass(loop, depth)


def _unwinding(unwinding: Unwinding, depth: int) -> Iterator[Part]:
    loop, passes, every = unwinding.loop, unwinding.passes, unwinding.loop.every
    yield from _assigned("real", _names(unwinding), unwinding.starts, depth)
    if every == 1:
        yield from _backwards(unwinding, "kept", f"{passes - 1}", depth)
        return
    # From the values before each group of passes, those before each of its passes, once more.
    names, first, count, again = _names(loop), f"first{depth}", f"count{depth}", depth + 1
    last = (passes - 1) // every * every
    yield from _head(f"int {first} = {last}; {first} >= 0; {first} -= {every}", depth)
    left = f"{passes} - {first}"
    yield Control(f"const int {count} = {left} < {every} ? {left} : {every};", again)
    yield from _arrays("again", names, every, again)
    yield Control("{", again)
    yield from _assigned("real", names, _places("kept", names, f"{first} / {every}"), again + 1)
    number = f"pass{again}"
    yield from _head(f"int {number} = 0; {number} < {count}; ++{number}", again + 1)
    yield from _stored("again", number, loop, again + 2)
    yield from _pass(loop, again + 1)
    yield Control("}", again)
    yield from _backwards(unwinding, "again", f"{count} - 1", again)
    yield Control("}", depth)


def _backwards(unwinding: Unwinding, arrays: str, last: str, depth: int) -> Iterator[Part]:
    """The passes from the last to the first, whose carried values are in arrays."""
    number, names = f"pass{depth}", _names(unwinding.loop)
    yield from _head(f"int {number} = {last}; {number} >= 0; --{number}", depth)
    yield from _assigned("const real", names, _places(arrays, names, number), depth + 1)
    yield from _pass(unwinding, depth)


def _pass(loop: Loop | Unwinding, depth: int) -> Iterator[Part]:
    """The statements of a pass, the new carried values and the closing bracket."""
    yield from parts_of(loop.statements, (), depth + 1)
    pairs = zip(loop.targets, loop.new, strict=True)
    moved = {spelled(target.name): new for target, new in pairs if target != new}
    # A carried value that becomes another one is copied before that one changes.
    copied = {name: new for name, new in moved.items() if new in loop.targets}
    yield from _assigned("const real", map(_copy, copied), copied.values(), depth + 1)
    values = (_copy(name) if name in copied else new for name, new in moved.items())
    yield from _assigned("", moved, values, depth + 1)
    yield Control("}", depth)


def _head(header: str, depth: int) -> Iterator[Part]:
    yield Control(_ROLLED, 0)
    yield Control(f"for ({header}) {{", depth)


def _names(loop: Loop | Unwinding) -> list[str]:
    return [spelled(target.name) for target in loop.targets]


def _copy(name: str) -> str:
    return f"new_{name}"


def _places(kind: str, names: Iterable[str], number: str) -> list[str]:
    return [f"{kind}_{name}[{number}]" for name in names]


def _assigned(
    kind: str, targets: Iterable[str], values: Iterable[Node | str], depth: int
) -> Iterator[Part]:
    for target, value in zip(targets, values, strict=True):
        yield Assignment(target, value, kind, depth)


def _arrays(kind: str, names: Iterable[str], size: int, depth: int) -> Iterator[Part]:
    for name in names:
        yield Array(f"{kind}_{name}", size, depth)


def _stored(kind: str, number: str, loop: Loop, depth: int) -> Iterator[Part]:
    yield from _assigned("", _places(kind, _names(loop), number), loop.targets, depth)
