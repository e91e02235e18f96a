"""The text form of a model: one declaration or constraint per line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ..errors import ModelError, near
from .constraint import Constraint, Truth
from .declarations import Declarations
from .expression import Constant, Expression
from .tokens import Token, fail, tokens_of

Made = TypeVar("Made")

# Precedence of operators, except brackets and - before an operand.
_BINDING = {"->": 1, "or": 2, "and": 3, "in": 5, "not": 5}
_BINDING |= dict.fromkeys(("==", "!=", "<=", ">=", "<", ">"), 5)
_BINDING |= {"+": 6, "-": 6, "*": 7, "//": 7, "%": 7, "**": 9, "^": 9}
_NOT, _MINUS = 4, 8

_EXPRESSIONS: dict[str, Callable[[Expression, Expression], Expression | Constraint]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "^": lambda a, b: a**b,
}
_CONSTRAINTS: dict[str, Callable[[Constraint, Constraint], Constraint]] = {
    "->": lambda a, b: a.implies(b),
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
}


def write(model: Declarations) -> str:
    """The text of a model, which `read` reads back."""
    lines = [f"{v} in {v.domain};" for v in model.variables]
    for name, constraint in model.constraints.items():
        text = str(constraint)
        label = "" if name == text else f"{json.dumps(name, ensure_ascii=False)}: "
        lines.append(f"{label}{text};")
    return "\n".join(lines)


def read(text: str, into: Declarations) -> None:
    """Declare what a text says.

    Args:
        text: in the form that `Model.parse` describes.
        into: the declarations that are added to.
    """
    _Parser(text, into).run()


class _Parser:
    """Reads one text: operators by their binding, brackets by recursion."""

    def __init__(self, text: str, into: Declarations) -> None:
        self.text = text
        self.result = into
        self.tokens = tokens_of(text)
        self.place = 0

    def _fail(self, at: int, found: str, wanted: str, write: str) -> NoReturn:
        fail(self.text, at, found, wanted, write)

    @property
    def _now(self) -> Token:
        return self.tokens[self.place]

    def _next(self) -> Token:
        token = self.tokens[self.place]
        self.place += token.kind != "end"
        return token

    def _unexpected(self, wanted: str, write: str) -> NoReturn:
        token = self._now
        names = {"end": "the end of the text", "line": "the end of the line"}
        self._fail(token.at, names.get(token.kind, f"`{token.text}`"), wanted, write)

    def _expect(self, mark: str, write: str) -> None:
        if self._now.text != mark:
            self._unexpected(f"`{mark}`", write)
        self._next()

    def run(self) -> None:
        """Read all statements."""
        while self._now.kind != "end":
            if self._now.kind == "line" or self._now.text == ";":
                self._next()
                continue
            self._statement()
            if self._now.kind not in ("line", "end") and self._now.text != ";":
                self._unexpected("an operator or the end of the statement", "; or a new line")

    def _statement(self) -> None:
        start, label = self._now, None
        if start.kind == "text":
            self._next()
            try:
                label = str(json.loads(start.text))
            except ValueError:
                self._fail(start.at, start.text, "a quoted name", r'"...", with \" and \\ inside')
            self._expect(":", f"{start.text}: a <= b")
        elif start.kind == "name" and self.tokens[self.place + 1].text == "in":
            known = {v.name for v in self.result.variables}
            if start.text not in known:
                self._declare()
                return
        at = self._now.at
        constraint = self._constraint(at, self._operand(0))
        self._guarded(start.at, lambda: self.result.require(constraint, label))

    def _declare(self) -> None:
        name = self._next()
        self._next()
        if self._now.text == "[":
            values = self._list()
            self._guarded(name.at, lambda: self.result.int(name.text, values))
        else:
            low, high = self._range(name.text)
            self._guarded(name.at, lambda: self.result.int(name.text, low, high))

    def _list(self) -> list[int]:
        self._expect("[", "[8, 16, 32]")
        values = []
        while self._now.text != "]":
            values.append(self._integer())
            if self._now.text == ",":
                self._next()
            elif self._now.text != "]":
                self._unexpected("`,` or `]`", "[8, 16, 32]")
        self._next()
        return values

    def _range(self, name: str) -> tuple[int, int]:
        low = self._integer()
        self._expect("..", f"{name} in 1..32, or {name} in [8, 16, 32]")
        return low, self._integer()

    def _integer(self) -> int:
        minus = self._now.text == "-"
        if minus:
            self._next()
        if self._now.kind != "number":
            self._unexpected("an integer", "1..32, or [8, 16, 32]")
        value = int(self._next().text)
        return -value if minus else value

    def _operand(self, binding: int) -> Expression | Constraint:
        """An operand with all operators after it whose precedence is above `binding`."""
        start = self._now.at
        left = self._prefix()
        while True:
            token = self._now
            power = _BINDING.get(token.text, 0) if token.kind in ("mark", "name") else 0
            if power <= binding:
                return left
            self._next()
            left = self._infix(start, left, token, power)

    def _prefix(self) -> Expression | Constraint:
        token = self._now
        if token.kind == "number":
            self._next()
            return Constant(int(token.text))
        if token.text == "(":
            self._next()
            inner = self._operand(0)
            self._expect(")", "a `)` for each `(`")
            return inner
        if token.text == "-":
            self._next()
            value = self._expression(self._now.at, self._operand(_MINUS))
            return Constant(-value.value) if isinstance(value, Constant) else -value
        if token.text == "not":
            self._next()
            return ~self._constraint(self._now.at, self._operand(_NOT))
        if token.text in ("true", "false"):
            self._next()
            return Truth(token.text == "true")
        if token.kind == "name" and token.text not in _BINDING:
            self._next()
            known = {v.name: v for v in self.result.variables}
            if token.text not in known:
                write = near(token.text, known) if known else f"{token.text} in 1..32"
                self._fail(
                    token.at, f"`{token.text}`, which is not declared", "a declared name", write
                )
            return known[token.text]
        return self._unexpected("an integer, a name, `-`, `not` or `(`", "a complete constraint")

    def _infix(
        self, start: int, left: Expression | Constraint, token: Token, power: int
    ) -> Expression | Constraint:
        word, at = token.text, self._now.at
        if word in _CONSTRAINTS:
            # `->` groups from the right.
            right = self._operand(power - (word == "->"))
            return _CONSTRAINTS[word](self._constraint(start, left), self._constraint(at, right))
        value = self._expression(start, left)
        if word in ("in", "not") or (word in ("==", "!=") and self._now.text == "["):
            if word == "not":
                self._expect("in", "a not in [8, 16]")
            return self._member(value, token, outside=word in ("not", "!="))
        other = self._expression(at, self._operand(power - (power == _BINDING["**"])))
        return self._guarded(token.at, lambda: _EXPRESSIONS[word](value, other))

    def _member(self, value: Expression, token: Token, *, outside: bool) -> Constraint:
        inside: Constraint
        if self._now.text == "[":
            values = self._list()
            inside = self._guarded(token.at, lambda: value.isin(values))
        else:
            low, high = self._range(str(value))
            inside = (value >= low) & (value <= high)
        return ~inside if outside else inside

    def _expression(self, at: int, value: Expression | Constraint) -> Expression:
        if not isinstance(value, Expression):
            write = "a <= b and b <= c, not a <= b <= c"
            self._fail(at, f"the constraint `{value}`", "a number", write)
        return value

    def _constraint(self, at: int, value: Expression | Constraint) -> Constraint:
        if not isinstance(value, Constraint):
            self._fail(at, f"the number `{value}`", "a constraint", f"{value} == 1")
        return value

    def _guarded(self, at: int, make: Callable[[], Made]) -> Made:
        """The result of `make`; its error gets the column."""
        try:
            return make()
        except ModelError as error:
            self._fail(at, error.found, error.wanted, error.write)
