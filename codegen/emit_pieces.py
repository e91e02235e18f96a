"""C++ of a program with very many calls, cut into functions of a few statements each.

A compiler's time grows with the third power of the calls in a function: a chain of 2,000 `sin`,
whose backward calls functions 4,000 times, took NVRTC two minutes, and takes eleven seconds in
pieces. Values that a piece hands on are in local memory, where those of so long a program are
anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..cellspec.declare import Constant
from ..cellspec.expression.node import Node, ordered
from .emit import cpp_of_piece, literal, spelled
from .emit_statements import Line, statement_lines
from .program import AnyStatement, Program, Statement, symbols_of, values_of

#: The calls of a piece, after which the next one begins.
CALLS = 32


def constant_lines(values: Iterable[Node], constants: Iterable[Constant]) -> Iterator[Line]:
    """Declarations of the numbers that values read."""
    used = {symbol.name for symbol in symbols_of(values)}
    for constant in constants:
        if constant.name in used:
            text = literal(constant.value)
            fixed = "constexpr" if text.startswith("real(") else "const"
            yield Line(f"  {fixed} real {spelled(constant.name)} = {text};")


def piece_lines(
    name: str, program: Program, constants: Sequence[Constant], passed: Sequence[str] = ()
) -> tuple[list[Line], list[Line]]:
    """The pieces of a program, and the statements of the function that calls them.

    Args:
        name: of the function. Those of the pieces begin with it.
        program: its statements. Loops stay in the function.
        constants: the cell's numbers.
        passed: functions that the caller passes as objects, as `emit_lines` takes them.
    """
    return _Cut(name, program, constants, passed).lines()


@dataclass(frozen=True)
class _Cut:
    name: str
    program: Program
    constants: Sequence[Constant]
    passed: Sequence[str]

    def lines(self) -> tuple[list[Line], list[Line]]:
        items = list(_pieces(self.program.statements))
        piece_of = {n: k for k, item in enumerate(items) for n in _names(item)}
        outputs = [o.name for o in self.program.outputs]
        places = self._places(items, piece_of, outputs)
        conditions = _conditions(self.program.statements)
        pieces: list[Line] = []
        body = [Line(f"  real kept[{len(places)}];")]
        inputs = {i.name for i in self.program.inputs}
        body += [Line(_store(n, places)) for n in places if n in inputs and n not in piece_of]
        here = {*inputs, *outputs}  # the values that the function itself can read
        arguments = ", ".join(["kept", *self.passed])
        for number, item in enumerate(items):
            read = [n for n in _read(item) if n in places and piece_of.get(n) != number]
            if isinstance(item, list):
                function = f"{self.name}_{number}"
                pieces += self._piece(function, item, read, places, conditions)
                body.append(Line(f"  {function}({arguments});"))
                made = [n for n in _names(item) if n in outputs]
                body += [Line(f"  {spelled(n)} = kept[{places[n]}];") for n in made]
            else:
                body += [Line(_load(n, places, conditions)) for n in read if n not in here]
                here |= {*read, *_names(item)}
                body += statement_lines([item])
                body += [Line(_store(n, places)) for n in _names(item) if n in places]
        return pieces, body

    def _piece(
        self,
        function: str,
        statements: Sequence[Statement],
        read: Iterable[str],
        places: Mapping[str, int],
        conditions: Collection[str],
    ) -> Iterator[Line]:
        if self.passed:
            yield Line(f"template <{', '.join(f'typename _{f}' for f in self.passed)}>")
        parameters = ", ".join(["real* kept", *(f"_{f}& {f}" for f in self.passed)])
        yield Line(f"__device__ __noinline__ void {function}({parameters}) {{")
        yield from constant_lines(values_of(statements), self.constants)
        yield from (Line(_load(n, places, conditions)) for n in read)
        yield from statement_lines(statements, write=cpp_of_piece)
        yield from (Line(_store(n, places)) for n in _names(statements) if n in places)
        yield Line("}")
        yield Line("")

    def _places(
        self,
        items: Iterable[list[Statement] | AnyStatement],
        piece_of: Mapping[str, int],
        outputs: Iterable[str],
    ) -> dict[str, int]:
        """The place in local memory of each value that is read outside its piece."""
        variables = {i.name for i in self.program.inputs} | {*piece_of}
        found: dict[str, int] = {}
        for number, item in enumerate(items):
            for name in _read(item):
                if name in variables and piece_of.get(name) != number:
                    found.setdefault(name, len(found))
        for name in outputs:
            found.setdefault(name, len(found))
        return found


def _pieces(statements: Iterable[AnyStatement]) -> Iterator[list[Statement] | AnyStatement]:
    """Runs of statements with a few calls each, and the loops between them."""
    piece: list[Statement] = []
    calls = 0
    for statement in statements:
        if isinstance(statement, Statement):
            piece.append(statement)
            calls += sum(node.op == "call" for node in ordered([statement.value]))
        if piece and (calls >= CALLS or not isinstance(statement, Statement)):
            yield piece
            piece, calls = [], 0
        if not isinstance(statement, Statement):
            yield statement
    if piece:
        yield piece


def _statements(item: list[Statement] | AnyStatement) -> Sequence[AnyStatement]:
    return item if isinstance(item, list) else [item]


def _names(item: Sequence[Statement] | AnyStatement) -> list[str]:
    """The names that a piece or a loop gives to what follows."""
    if isinstance(item, Sequence):
        return [statement.target.name for statement in item]
    return [item.target.name] if isinstance(item, Statement) else [t.name for t in item.targets]


def _read(item: list[Statement] | AnyStatement) -> list[str]:
    """The names that a piece or a loop reads, in an order that no process changes."""
    values = ordered(values_of(_statements(item)))
    return [node.name for node in values if node.is_symbol]


def _conditions(statements: Iterable[AnyStatement]) -> set[str]:
    return {s.target.name for s in statements if isinstance(s, Statement) and s.value.is_condition}


def _store(name: str, places: Mapping[str, int]) -> str:
    return f"  kept[{places[name]}] = {spelled(name)};"


def _load(name: str, places: Mapping[str, int], conditions: Collection[str]) -> str:
    kept = f"kept[{places[name]}]"
    if name in conditions:
        return f"  const bool {spelled(name)} = {kept} != real(0);"
    return f"  const real {spelled(name)} = {kept};"
